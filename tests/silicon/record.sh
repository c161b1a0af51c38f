#!/bin/sh
# Builds the micro-benchmarks with nvcc, runs them on the first GPU, and writes what they print into the folder RESULTS.
#   usage: record.sh BUILD_FOLDER RESULTS [PROGRAM...]
# A program that is already in BUILD_FOLDER is not built again. Nothing here changes a setting of the GPU.
set -u
build=$1 results=$2
shift 2
source_folder=$(cd "$(dirname "$0")" && pwd)
programs=${*:-arithmetic shared_memory global_memory bulk_copy barriers wgmma launch contention joined_requests clock distances placement instruction_cache branches register_banks shared_products blocks plain_kernels memory_load scattered parallel_patterns layers_and_sorts fractals_and_bodies rows_and_grids prices_and_rays rows_and_pages everyday_kernels tokens_and_images tables_and_channels scores_and_filters warp_products cluster_products}
mkdir -p "$build" "$results"
for program in $programs reconvergence waiting_lanes meeting_places; do
  [ -x "$build/$program" ] || ${NVCC:-nvcc} -std=c++20 -O3 -gencode arch=compute_90a,code=sm_90a \
    -o "$build/$program" "$source_folder/$program.cu" -lcuda || echo "$program does not build" >&2
done
# This one changes the registers of its own machine code.
[ -f "$build/register_banks.cubin" ] || ${NVCC:-nvcc} -std=c++20 -O3 -arch=sm_90a -cubin \
  -o "$build/register_banks.cubin" "$source_folder/register_banks.cu"
name=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -1)
base=$results/$(echo "$name" | tr 'A-Z ' 'a-z-')-$(date -u +%F)
if [ -e "$base.jsonl" ]; then  # another run of the same day
  run=2
  while [ -e "$base-$run.jsonl" ]; do run=$((run + 1)); done
  base=$base-$run
fi
# Clocks, power and temperature before, during (each second) and after; queries only.
query=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,power.draw,power.limit,temperature.gpu
state() {
  nvidia-smi --query-gpu=$query --format=csv,noheader | head -1 |
    sed "s/.*/{\"state\": \"$1\", \"fields\": \"$query\", \"values\": \"&\"}/"
}
{
  cuda=$(${NVCC:-nvcc} --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\), V\(.*\)/\2/p')
  echo "{\"date\": \"$(date -u +%FT%TZ)\", \"cuda\": \"$cuda\", \"kernel\": \"$(uname -sr)\"}"
  state before
  for program in $programs; do
    echo "{\"program\": \"$program\"}"
    "$build/$program" &
    process=$!
    (while kill -0 $process 2>/dev/null; do state "during $program"; sleep 5; done) > "$base.states" &
    watcher=$!
    wait $process
    kill $watcher 2>/dev/null
    wait $watcher 2>/dev/null
    cat "$base.states"
    state "after $program"
  done
} > "$base.jsonl"
rm -f "$base.states"
# Further runs must print the same, or a section shows what happened by chance.
"$build/reconvergence" > "$base-reconvergence.txt" 2>&1
for run in 2 3 4; do
  "$build/reconvergence" > "$base-reconvergence.again" 2>&1
  diff "$base-reconvergence.txt" "$base-reconvergence.again" > "$base-reconvergence.diff$run" &&
    rm "$base-reconvergence.diff$run"
done
rm -f "$base-reconvergence.again"
"$build/waiting_lanes" > "$base-waiting-lanes.txt" 2>&1
"$build/meeting_places" > "$base-meeting-places.txt" 2>&1
