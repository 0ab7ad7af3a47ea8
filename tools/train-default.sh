#!/bin/sh
# Make the shipped model from nothing, with its intervals: PERFVEC FOLDER MODEL [GEM5]. Every step keeps what is there
# already, so that a run that was stopped continues when it is started again.
#
# GEM5 is a folder with traces and gem5's own labels of them (as `perfvec label --simulator gem5` writes): its
# machines are the model's table. Without it the machine's own programs are labelled by the embedded simulator on the
# presets and 64 machines of the design space. Either way windows of those programs, and of all others of the
# catalogue that the machine has, their first instructions among them, are labelled by the embedded simulator on
# sampled machines, each window on others: these teach the encoder, and the foundation model what other programs do.
# So do mixtures of presets, real cores, which a design space rarely comes close to, and machines that vary each field
# by itself. Half the windows of the other programs are labelled on the table's machines too, to refine its rows.
# Programs of GEM5's names, other runs of six of them, gnugo, k_hash, and the programs of
# `benchmarks/uarch/label_unseen.py`, which gem5 has been run on too, are left out: no model sees what it is judged
# on. The model and its five folds, each without a fifth of the programs and 16 machines, are made alike; the folds
# give the model its intervals; of programs unlike those that it knows, other kinds of programs do. Presets get
# vectors of their own, fitted to the embedded simulator's labels of GEM5's programs.
#
# ARCHITECTURE (mlp), WIDTH (128), LAYERS (2), INSTRUCTIONS (36000000) and MACHINES (128 a window of the labelled
# programs) in the environment change the recipe; LONG=1 adds the set long-phases, which brought no gain
# (docs/appendix/training.md); FOLDS="2 5" makes these folds only, and no model.
set -eu
perfvec=$1 out=$2 model=$3 gem5=${4:-}
here=$(dirname "$0")
python=$(dirname "$perfvec")/python
case $python in */*) ;; *) python=python3 ;; esac
mkdir -p "$out"
out=$(cd "$out" && pwd)

"$perfvec" suite list 2>&1 >/dev/null | sed "s/^/train-default: other programs teach the model, too: /" >&2
for set in default debian mix; do
    "$perfvec" suite run --set "$set" -o "$out/traces" --max-instructions 3300000
done
"$perfvec" suite run --set phases -o "$out/traces" --max-instructions 1800000
test -z "${LONG:-}" || "$perfvec" suite run --set long-phases -o "$out/traces" --max-instructions 1800000
"$perfvec" suite run --set loops -o "$out/traces" --max-instructions 1300000
"$perfvec" suite run --set laps -o "$out/traces" --max-instructions 2300000
mkdir -p "$out/programs" "$out/kernels" "$out/phases" "$out/long" "$out/all"
for path in "$out"/traces/*.trace.h5; do
    name=$(basename "$path" .trace.h5)
    if [ -n "$gem5" ] && [ -e "$gem5/$name.trace.h5" ]; then
        continue
    fi
    case $name in
        k_phases_*) ln -sf "$path" "$out/phases" ;;
        k_long_*) test -z "${LONG:-}" || ln -sf "$path" "$out/long" ;;
        k_mix_* | k_loops_* | k_laps_*) ln -sf "$path" "$out/kernels" ;;
        perl-sieve | awk | sha256sum | unxz | k_chase_small | k_stream_small | gnugo | k_hash | \
            dc | brotli | flex | nasm | cc1 | bwa-index | cjpeg | oggenc | cmark | troff | diff | \
            minisat | qhull | aes | k_tree | k_life)
            test -n "$gem5" || ln -sf "$path" "$out/programs"
            ;;
        *) ln -sf "$path" "$out/programs" ;;
    esac
done
if [ -z "$gem5" ]; then
    gem5=$out/windows
    "$perfvec" label "$out"/programs/*.trace.h5 --presets --sample 64 --seed 1 --start 1000000 --count 200000 -o "$gem5" \
        >/dev/null
    ln -sf "$out"/programs/*.trace.h5 "$gem5"
fi
gem5=$(cd "$gem5" && pwd)
for folder in "$gem5" "$out/programs" "$out/kernels" "$out/phases" "$out/long"; do
    find "$folder/" -maxdepth 1 -name "*.trace.h5" -exec ln -sf -t "$out/all" {} +
done
ours() { # ARGUMENTS… of Python, with this repository's modules
    PYTHONPATH="$here/..${PYTHONPATH:+:$PYTHONPATH}" "$python" "$@"
}
tool() { # NAME ARGUMENTS…
    name=$1
    shift
    ours "$here/$name" "$@"
}
sampled() { # TRACES OPTIONS…
    traces=$1
    shift
    tool label_sampled.py "$traces" "$out/sampled" "$@"
}
near() { # TRACES OPTIONS…
    traces=$1
    shift
    tool label_sampled.py "$traces" "$out/near" --near-presets "$@"
}
factorial() { # TRACES OPTIONS…
    traces=$1
    shift
    tool label_sampled.py "$traces" "$out/factorial" --factorial "$@"
}
around_presets() {
    near "$gem5" --latencies "$gem5" --windows 4
    near "$out/programs" --windows 4
    near "$out/programs" --at 0 250000
    near "$gem5" --at 0 250000
    near "$out/kernels"
    "$perfvec" label "$gem5"/*.trace.h5 --presets --start 2000000 --count 200000 -o "$out/presets" >/dev/null
}
each_field() {
    factorial "$gem5" --latencies "$gem5" --windows 3
    factorial "$gem5" --at 0 250000
    factorial "$out/kernels"
    factorial "$out/long" --windows 3
    factorial "$out/programs" --windows 3
    factorial "$out/programs" --at 0 250000
}
around_presets &
presets=$!
sampled "$gem5" --latencies "$gem5" --windows 5 --machines "${MACHINES:-128}"
sampled "$out/programs" --windows 4
sampled "$out/kernels"
sampled "$out/phases" --windows 6
sampled "$out/long" --windows 6
sampled "$out/programs" --at 0 60000 250000
sampled "$gem5" --at 0 60000 250000
tool label_rows.py "$out/all" "$out/sampled" "$gem5" "$out/rows"
wait "$presets"
each_field
mkdir -p "$out/taught"
ln -sf "$out"/sampled/*.latency.h5 "$out/taught"
for windows in factorial near; do
    for path in "$out/$windows"/*.latency.h5; do
        ln -sf "$path" "$out/taught/$windows-$(basename "$path")"
    done
done

train() { # NAME OPTIONS…
    made=$out/$1.safetensors
    shift
    test -e "$made" || "$perfvec" train --traces "$out/all" --latencies "$gem5" --sampled-latencies "$out/taught" \
        --row-latencies "$out/rows" \
        --schema timed --architecture "${ARCHITECTURE:-mlp}" --width "${WIDTH:-128}" --layers "${LAYERS:-2}" \
        --skip-connection --instructions "${INSTRUCTIONS:-36000000}" --seed 1 --shards "$out/shards" -o "$made" "$@"
}
fold() {
    train "fold$1" --fold "$1/5" --hold-machines 16 --machine-seed "$1"
}
all_programs() {
    train model --table-latencies "$out/presets"
}
beside() { # TRAINING TRAINING
    export OMP_NUM_THREADS=1
    eval "$1" &
    other=$!
    eval "$2"
    wait "$other"
}
if [ -n "${FOLDS:-}" ]; then
    for one in $FOLDS; do
        fold "$one"
    done
    exit 0
fi
beside "fold 1" "fold 2"
beside "fold 3" "fold 4"
beside "fold 5" all_programs
given=
for one in 1 2 3 4 5; do
    given="$given --fold $out/fold$one.safetensors"
done
# shellcheck disable=SC2086 # the list is of words
"$perfvec" calibrate --model "$out/model.safetensors" $given --traces "$gem5" --latencies "$gem5" -o "$model"
ours -m benchmarks.perfvec.calibrate_unlike "$out/unlike" --model "$model" -o "$model"
