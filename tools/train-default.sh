#!/bin/sh
# Make the shipped model from nothing: PERFVEC FOLDER MODEL. Every step keeps what is there already, so that a run that
# was stopped continues when it is started again.
set -eu
perfvec=$1 out=$2 model=$3

# What the machine has of the catalogue, four million instructions of each.
"$perfvec" suite run --set default -o "$out/traces" --max-instructions 4000000

# Some of every kind, for what costs more.
varied=""
for name in gzip xz perl awk sqlite sort grep sha256sum bc cc1 k_matmul k_stream k_chase k_chase_small k_qsort k_life; do
    [ -f "$out/traces/$name.trace.h5" ] && varied="$varied $out/traces/$name.trace.h5"
done

# Table machines: every preset and 59 of the design space, on the start of each run and on a later, warmed stretch of
# some. Encoder machines: 240 others of the design space, on the start of some.
# shellcheck disable=SC2086 # lists of words
{
    "$perfvec" label "$out"/traces/*.trace.h5 --presets --sample 59 --seed 1 --count 600000 -o "$out/latencies"
    "$perfvec" label $varied --presets --sample 59 --seed 1 --start 3200000 --count 600000 -o "$out/latencies"
    "$perfvec" label $varied --sample 240 --seed 2 --count 150000 -o "$out/encoder-latencies"
} >/dev/null

"$perfvec" train --traces "$out/traces" --latencies "$out/latencies" --encoder-latencies "$out/encoder-latencies" \
    --instructions 26000000 --seed 1 -o "$model"
