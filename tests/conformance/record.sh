#!/bin/sh
# Records what a real GPU prints: every conformance program in the folder PROGRAMS, with two seeds, into the folder OUTPUT.
#   usage: record.sh PROGRAMS OUTPUT
# Build with -Dgpu_backend=gpu -Dgpu_architectures=90a on an H200, and call recorded.py pack OUTPUT.
set -eu
programs=$1 output=$2
mkdir -p "$output"
gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)
for source in "$(dirname "$0")"/*.cu; do
  name=$(basename "$source" .cu)
  [ "$name" != tcgen05_words ] || continue  # it compares with words that others recorded
  [ -e "$programs/conformance_$name" ] || { echo "no conformance_$name" >&2; continue; }  # another GPU has its instructions
  for seed in 1 2; do
    file=$output/$name.seed$seed.txt
    echo "# $gpu, $(date -u +%F), conformance_$name --seed $seed" > "$file"
    "$programs/conformance_$name" --seed "$seed" >> "$file" || echo "conformance_$name --seed $seed failed" >&2
    # A second run must print the same, or the program does not show what the GPU decides but what happened by chance.
    "$programs/conformance_$name" --seed "$seed" --compare "$file" >&2 || echo "$file does not repeat" >&2
  done
done
