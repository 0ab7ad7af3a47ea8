#!/bin/sh
# Make the shipped model from nothing: PERFVEC FOLDER MODEL. Every step keeps what is there already, so that a run that
# was stopped continues when it is started again.
set -eu
perfvec=$1 out=$2 model=$3

# What the machine has of the catalogue, four million instructions of each.
"$perfvec" suite run -o "$out/traces" --max-instructions 4000000

# Table machines: every preset and 59 of the design space; the start of each run and a later, warmed stretch.
for start in 0 3200000; do
    "$perfvec" label "$out"/traces/*.trace.h5 --presets --sample 59 --seed 1 --start $start --count 600000 \
        -o "$out/latencies" >/dev/null
done

# More machines for the encoder, on the start of some programs of every kind.
encoder=""
for name in gzip xz perl awk sqlite sort grep sha256sum bc cc1 k_matmul k_stream k_chase k_chase_small k_qsort k_life; do
    [ -f "$out/traces/$name.trace.h5" ] && encoder="$encoder $out/traces/$name.trace.h5"
done
# shellcheck disable=SC2086 # a list of words
"$perfvec" label $encoder --sample 240 --seed 2 --count 150000 -o "$out/encoder-latencies" >/dev/null

"$perfvec" train --traces "$out/traces" --latencies "$out/latencies" --encoder-latencies "$out/encoder-latencies" \
    --instructions 60000000 --seed 1 -o "$model"
