#!/bin/sh
# Make the shipped model from nothing: PERFVEC FOLDER MODEL [GEM5]. Every step keeps what is there already, so that a run
# that was stopped continues when it is started again.
#
# GEM5 is a folder with traces and gem5's own labels of them (as `perfvec label --simulator gem5` writes); its machines are
# then the model's, and its programs train the second stage. Without it machines are the presets and 64 of the design
# space, and the embedded timing model labels everything.
set -eu
perfvec=$1 out=$2 model=$3 gem5=${4:-}

# What the machine has of the catalogue; programs that GEM5 has too are left out.
for set in default debian mix; do
    "$perfvec" suite run --set "$set" -o "$out/traces" --max-instructions 3300000
done
if [ -n "$gem5" ]; then
    for path in "$gem5"/*.trace.h5; do
        rm -f "$out/traces/$(basename "$path")"
    done
    set -- --machines-of "$(find "$gem5" -name '*.latency.h5' | sort | head -n 1)"
else
    set -- --presets --sample 64 --seed 1
fi

# Three windows of each program; of half of the programs one in the second stage too, which the encoder learns from.
for start in 1000000 2000000 3050000; do
    "$perfvec" label "$out"/traces/*.trace.h5 "$@" --start $start --count 200000 -o "$out/labels-$start" >/dev/null
done
mkdir -p "$out/all" "$out/first" "$out/second"
ln -sf "$out"/labels-*/*.latency.h5 "$out/first"
ln -sf "$out"/labels-1000000/[a-m]*.latency.h5 "$out/second"
ln -sf "$out"/traces/*.trace.h5 "$out/all"
if [ -n "$gem5" ]; then
    ln -sf "$(cd "$gem5" && pwd)"/*.latency.h5 "$out/second"
    ln -sf "$(cd "$gem5" && pwd)"/*.trace.h5 "$out/all"
fi

# Machines beyond the table: presets with vectors of their own, and 160 others that teach the encoder.
"$perfvec" label "$out"/traces/k_*.trace.h5 "$out"/traces/[c-g]*.trace.h5 --presets --sample 160 --seed 2 \
    --start 1000000 --count 60000 -o "$out/encoder" >/dev/null
"$perfvec" label "$out"/traces/*.trace.h5 --presets --start 1000000 --count 200000 -o "$out/presets" >/dev/null

"$perfvec" train --traces "$out/traces" --latencies "$out/first" --instructions 22000000 --no-encoder \
    -o "$out/first.safetensors"
"$perfvec" train --traces "$out/all" --latencies "$out/second" --instructions 10000000 \
    --learning-rate 1e-3 --matrix-rate 0.01 --initial "$out/first.safetensors" \
    --encoder-latencies "$out/encoder" --table-latencies "$out/presets" -o "$model"
