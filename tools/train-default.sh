#!/bin/sh
# Make the shipped model from nothing: PERFVEC FOLDER MODEL [GEM5]. Every step keeps what is there already, so that a run
# that was stopped continues when it is started again.
#
# GEM5 is a folder with traces and gem5's own labels of them (as `perfvec label --simulator gem5` writes); its machines are
# then the model's, its programs train the second stage, and five more models, each of four fifths of its programs and of
# fewer machines, give the model its intervals. Without it machines are the presets and 64 of the design space, the
# embedded timing model labels everything, and predictions have no intervals.
set -eu
perfvec=$1 out=$2 model=$3 gem5=${4:-}

# What the machine has of the catalogue; programs that GEM5 has too are left out, and other runs of six of them.
for set in default debian mix; do
    "$perfvec" suite run --set "$set" -o "$out/traces" --max-instructions 3300000
done
"$perfvec" suite run --set loops -o "$out/traces" --max-instructions 900000
"$perfvec" suite run --set laps -o "$out/traces" --max-instructions 2300000
if [ -n "$gem5" ]; then
    gem5=$(cd "$gem5" && pwd)
    for path in "$gem5"/*.trace.h5; do
        rm -f "$out/traces/$(basename "$path")"
    done
    for name in perl-sieve awk sha256sum unxz k_chase_small k_stream_small; do
        rm -f "$out/traces/$name.trace.h5"
    done
    set -- --machines-of "$(find "$gem5" -name '*.latency.h5' | sort | head -n 1)"
else
    set -- --presets --sample 64 --seed 1
fi

# A window of each program; of some programs in the second stage too, which the encoder learns from.
programs=$(find "$out/traces" -name '*.trace.h5' ! -name 'k_loops_*' ! -name 'k_laps_*' | sort)
laps=$(find "$out/traces" -name 'k_laps_*.trace.h5' | sort)
once=$(find "$out/traces" -name 'k_loops_[1-9].trace.h5' -o -name 'k_loops_[1-5][0-9].trace.h5' -o -name 'k_loops_6[0-4].trace.h5')
again=$(find "$out/traces" -name 'k_loops_6[5-9].trace.h5' -o -name 'k_loops_[7-9][0-9].trace.h5' -o -name 'k_loops_1??.trace.h5')
# shellcheck disable=SC2086 # the lists are of words
{
    "$perfvec" label $programs "$@" --start 1000000 --count 200000 -o "$out/labels-programs" >/dev/null
    "$perfvec" label $laps "$@" --start 1200000 --count 200000 -o "$out/labels-laps" >/dev/null
    "$perfvec" label $once "$@" --start 300000 --count 200000 -o "$out/labels-once" >/dev/null
    "$perfvec" label $again "$@" --start 300000 --count 400000 -o "$out/labels-again" >/dev/null
}
mkdir -p "$out/all" "$out/first" "$out/second"
ln -sf "$out"/labels-*/*.latency.h5 "$out/first"
ln -sf "$out"/labels-programs/[a-j]*.latency.h5 "$out"/labels-programs/[lm]*.latency.h5 "$out/second"
find "$out/labels-programs" -name 'k_*' ! -name 'k_mix_[2-6][0-9]-*' ! -name 'k_mix_1[7-9]-*' -exec ln -sf {} "$out/second" \;
ln -sf "$out"/labels-once/k_loops_[1-9]-*.latency.h5 "$out"/labels-once/k_loops_1[0-6]-*.latency.h5 "$out/second"
ln -sf "$out"/labels-laps/k_laps_[1-9]-*.latency.h5 "$out"/labels-laps/k_laps_[12]?-*.latency.h5 "$out/second"
ln -sf "$out"/traces/*.trace.h5 "$out/all"
if [ -n "$gem5" ]; then
    ln -sf "$gem5"/*.latency.h5 "$out/second"
    ln -sf "$gem5"/*.trace.h5 "$out/all"
fi

# Machines beyond the table: presets with vectors of their own, and 160 others that teach the encoder.
few=$(find "$out/traces" -name '[c-g]*.trace.h5' -o -name 'k_*.trace.h5' ! -name 'k_loops_*' ! -name 'k_mix_??.*' \
    ! -name 'k_laps_[2-6]?.*' | sort)
most=$(find "$out/traces" -name '*.trace.h5' ! -name 'k_loops_*' ! -name 'k_mix_*' ! -name 'k_laps_*' | sort)
# shellcheck disable=SC2086
{
    "$perfvec" label $few --presets --sample 160 --seed 2 --start 1000000 --count 60000 -o "$out/encoder" >/dev/null
    "$perfvec" label $most --presets --start 1000000 --count 200000 -o "$out/presets" >/dev/null
}

"$perfvec" train --traces "$out/all" --latencies "$out/first" --architecture convolution --layers 4 --width 128 \
    --instructions 60000000 --no-encoder --shards "$out/shards" -o "$out/first.safetensors"
second() { # MODEL OPTIONS…
    made=$1
    shift
    test -e "$made" || "$perfvec" train --traces "$out/all" --latencies "$out/second" --initial "$out/first.safetensors" \
        --learning-rate 1e-3 --muon-lr 0.01 --seed 1 --encoder-latencies "$out/encoder" \
        --shards "$out/shards" -o "$made" "$@"
}
second "$out/model.safetensors" --instructions 24000000 --table-latencies "$out/presets"
if [ -z "$gem5" ]; then
    cp "$out/model.safetensors" "$model"
    exit
fi

# The folds of GEM5's programs, as `perfvec train --fold K/5` deals them where there are no others.
fold() { # NUMBER PROGRAMS…
    number=$1 excluded=
    shift
    for program; do excluded="$excluded --exclude $program"; done
    # shellcheck disable=SC2086
    second "$out/fold$number.safetensors" --instructions 9000000 --hold-machines 16 --machine-seed "$number" $excluded
}
fold 1 dot flac mawk bison sqlite k_spmv sha256
fold 2 k_fft zopfli glpsol hmmer k_qsort tcc bzip2
fold 3 sort xz perl lua gp python k_stream
fold 4 samtools sox svm picosat gforth jq xmllint
fold 5 objdump k_chase espeak k_matmul lz4 x264
"$perfvec" calibrate --model "$out/model.safetensors" --fold "$out/fold1.safetensors" --fold "$out/fold2.safetensors" \
    --fold "$out/fold3.safetensors" --fold "$out/fold4.safetensors" --fold "$out/fold5.safetensors" \
    --traces "$gem5" --latencies "$gem5" -o "$model"
