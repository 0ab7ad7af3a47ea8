#!/bin/sh
# Make a model from nothing, with its intervals: PERFVEC FOLDER MODEL [GEM5]. Every step keeps what is there already, so
# that a run that was stopped continues when it is started again.
#
# GEM5 is a folder with traces and gem5's own labels of them (as `perfvec label --simulator gem5` writes): its machines
# are the model's table. Without it the machine's own programs are traced, and the embedded simulator labels them on the
# presets and 64 machines of the design space. Either way the first 60,000 instructions of each window are labelled by the
# embedded simulator on machines of their own too, by which the encoder is trained together with the foundation model. The
# model and its five folds, each without a fifth of the programs and 16 machines, are made alike; the folds give the model
# its intervals.
#
# ARCHITECTURE (mlp), WIDTH (128), LAYERS (2), INSTRUCTIONS (5000000) and MACHINES (32 a window) in the environment
# change the recipe; FOLDS="2 5" makes these folds only, and no model.
set -eu
perfvec=$1 out=$2 model=$3 gem5=${4:-}
here=$(dirname "$0")
python=$(dirname "$perfvec")/python
case $python in */*) ;; *) python=python3 ;; esac
mkdir -p "$out"
out=$(cd "$out" && pwd)

if [ -z "$gem5" ]; then
    gem5=$out/windows
    "$perfvec" suite run --set default -o "$gem5" --max-instructions 3300000
    "$perfvec" label "$gem5"/*.trace.h5 --presets --sample 64 --seed 1 --start 1000000 --count 200000 -o "$gem5" \
        >/dev/null
fi
gem5=$(cd "$gem5" && pwd)
PYTHONPATH="$here/..${PYTHONPATH:+:$PYTHONPATH}" "$python" "$here/label_sampled.py" "$gem5" "$gem5" "$out/sampled" \
    --machines "${MACHINES:-32}"

train() { # MODEL OPTIONS…
    made=$1
    shift
    test -e "$made" || "$perfvec" train --traces "$gem5" --latencies "$gem5" --sampled-latencies "$out/sampled" \
        --schema timed --architecture "${ARCHITECTURE:-mlp}" --width "${WIDTH:-128}" --layers "${LAYERS:-2}" \
        --instructions "${INSTRUCTIONS:-5000000}" --seed 1 --shards "$out/shards" -o "$made" "$@"
}
given=
for fold in ${FOLDS:-1 2 3 4 5}; do
    train "$out/fold$fold.safetensors" --fold "$fold/5" --hold-machines 16 --machine-seed "$fold"
    given="$given --fold $out/fold$fold.safetensors"
done
test -z "${FOLDS:-}" || exit 0
train "$out/model.safetensors"
# shellcheck disable=SC2086 # the list is of words
"$perfvec" calibrate --model "$out/model.safetensors" $given --traces "$gem5" --latencies "$gem5" -o "$model"
