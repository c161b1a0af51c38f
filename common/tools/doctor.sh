# Read by ./stagecraft: what this machine has, and what will run where. Changes nothing.

# Prints one line of the report: a subject and its state.
line() { printf '  %-11s %s\n' "$1" "$2"; }

processor_line() {
  local model level='' memory
  model=$(sed -n 's/^model name[^:]*: //p;T;q' /proc/cpuinfo)
  if grep -qw avx512vl /proc/cpuinfo; then level=', AVX-512'; elif grep -qw avx2 /proc/cpuinfo; then level=', AVX2'; fi
  memory=$(awk '/^MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo)
  echo "${model:-$(uname -m)}, $(nproc) cores$level, $memory"
}

toolkit_line() {
  local home problem
  if home=$("$root/common/tools/find_nvcc" 2>/dev/null); then
    echo "$("$home/bin/nvcc" --version | sed -n 's/.*, V\(.*\)/\1/p') at $home"
  elif [[ -f $tools/cuda.done ]]; then
    echo "${cuda_packages[0]#*==} from NVIDIA's wheels, in $cuda_wheels"
  else
    problem=$("$root/common/tools/find_nvcc" 2>&1) || true
    echo "will be fetched from NVIDIA (${cuda_packages[0]#*==}), because there is ${problem/:$'\n'/:$'\n'}"
  fi
}

# Prints `name, compute capability, driver version` of each GPU.
gpus() { nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv,noheader 2>/dev/null || true; }

# What a GPU of compute capability $1 runs.
verdict() {
  case $1 in
    10.0) echo 'Blackwell data centre (sm_100): every program runs on it' ;;
    10.3) echo 'Blackwell data centre (sm_103): every program runs on it, built with -Dgpu_architectures=103a' ;;
    9.0) echo 'Hopper (sm_90): runs the programs that use mbarriers, TMA and wgmma; tcgen05 and tensor memory need the emulator' ;;
    12.[01]) echo "consumer Blackwell (sm_${1/./}): chapters 00 to 07, 09 and 12 in part, and 19 run on it, built with -Dgpu_architectures=${1/./}a.
              The others need tcgen05 and tensor memory, which it does not have, and run on the emulated B200" ;;
    11.*) echo "Blackwell in Jetson Thor (sm_${1/./}): has tcgen05, but the programs are not built for it; everything runs on the emulator" ;;
    *) echo "sm_${1/./}: not a GPU that the programs are built for; everything runs on the emulator" ;;
  esac
}

missing=$(missing_packages | tr '\n' ' ')
echo 'This machine'
line processor "$(processor_line)"
compiler=$(g++ --version 2>/dev/null | head -n 1 || true)
line compiler "${compiler:-none yet: g++ will be installed if I may}"
line libraries "${missing:+missing, will be installed if I may: }${missing:-all there}"
if [[ -f $tools/python.done ]]; then
  line tools "${python_packages[*]//==/ }, in $venv"
else
  line tools "${python_packages[*]//==/ }: will be fetched into $venv"
fi
line nvcc "$(toolkit_line)"

found_gpus=$(gpus)
if [[ -z $found_gpus ]]; then
  line GPU 'none that nvidia-smi knows'
fi
runs_on_chip='' desktop=''
while IFS= read -r gpu; do
  [[ -n $gpu ]] || continue
  IFS=',' read -r name capability driver <<<"$gpu"
  line GPU "$name, driver${driver}"
  line '' "$(verdict "${capability// /}")"
  case ${capability// /} in
    10.0 | 10.3 | 9.0) runs_on_chip=yes ;;
    12.[01]) desktop=${capability//[ .]/}a ;;
  esac
done <<<"$found_gpus"

echo 'What runs where'
line emulator 'everything, on a B200 (sm_100a) by default'
if [[ -n $runs_on_chip ]]; then
  line chip 'see above: meson setup build-gpu -Dgpu_backend=gpu && meson compile -C build-gpu'
elif [[ -n $desktop ]]; then
  line chip "see above: meson setup build-gpu -Dgpu_backend=gpu -Dgpu_architectures=$desktop && meson compile -C build-gpu"
  line '' "the same on the emulated one: meson setup build-card -Dgpu_architectures=$desktop && meson compile -C build-card"
else
  line chip 'nothing: programs with tcgen05 are built for a B200 or B300, the others for these, a Hopper (H100, H200), an RTX 50 or a DGX Spark'
fi
