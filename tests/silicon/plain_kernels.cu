// Plain kernels, as everyone writes them: copies, reductions, transpositions, and SGEMM in three steps. What they take
// is what the model of the chip is compared with (docs/timing.md). Each result is checked.
//
// With PLAIN_KERNELS_ONCE=1 in the environment each kernel is launched once, and nothing is timed: so the emulated GPU
// runs it, which has no clock of its own.
#include <random>

#include "kernel_timing.hpp"

using namespace silicon;

// ---- Kernels
// ---------------------------------------------------------------------------------------------------------

template <typename T>
__global__ void copy(const T* in, T* out) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i];
}

__device__ inline float sum_of(float value) { return value; }
__device__ inline float sum_of(float4 value) { return value.x + value.y + (value.z + value.w); }

/// Each block adds every gridDim.x-th piece of `in`; its sum goes to sums[blockIdx.x].
template <typename T>
__global__ void reduce(const T* in, uint32_t count, float* sums) {
  __shared__ float of_warp[32];
  float sum = 0;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) sum += sum_of(in[i]);
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
  if (lane() == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = lane() < blockDim.x / 32 ? of_warp[lane()] : 0;
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
  if (lane() == 0) sums[blockIdx.x] = sum;
}

constexpr int kSide = 32, kRows = 8;  // a block of 32 x 8 threads has a tile of 32 x 32

__global__ void transpose_naive(const float* in, float* out, int n) {
  const int x = blockIdx.x * kSide + threadIdx.x, y = blockIdx.y * kSide + threadIdx.y;
  for (int row = 0; row < kSide; row += kRows) out[x * n + y + row] = in[(y + row) * n + x];
}

/// With a pitch of 32 the lanes of a warp read one bank, with 33 all of them.
template <int Pitch>
__global__ void transpose_tiled(const float* in, float* out, int n) {
  __shared__ float tile[kSide][Pitch];
  const int x = blockIdx.x * kSide + threadIdx.x, y = blockIdx.y * kSide + threadIdx.y;
  for (int row = 0; row < kSide; row += kRows) tile[threadIdx.y + row][threadIdx.x] = in[(y + row) * n + x];
  __syncthreads();
  const int to_x = blockIdx.y * kSide + threadIdx.x, to_y = blockIdx.x * kSide + threadIdx.y;
  for (int row = 0; row < kSide; row += kRows) out[(to_y + row) * n + to_x] = tile[threadIdx.x][threadIdx.y + row];
}

/// All products are C = A B of square matrices, row by row. Neighbouring threads have neighbouring columns.
__global__ void __launch_bounds__(1024) sgemm_naive(const float* a, const float* b, float* c, int n) {
  const int row = blockIdx.y * kSide + threadIdx.y, column = blockIdx.x * kSide + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}

__global__ void __launch_bounds__(1024) sgemm_tiled(const float* a, const float* b, float* c, int n) {
  __shared__ float a_tile[kSide][kSide], b_tile[kSide][kSide];
  const int row = blockIdx.y * kSide + threadIdx.y, column = blockIdx.x * kSide + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += kSide) {
    a_tile[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
    b_tile[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kSide; ++i) sum += a_tile[threadIdx.y][i] * b_tile[i][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

constexpr int kBlock = 128, kStep = 8, kEach = 8;  // 256 threads have 128 x 128 of C, 8 x 8 each

/// Rows and columns of a thread are two groups of four, 64 apart, so that the lanes of a warp read neighbouring bytes.
__global__ void __launch_bounds__(256) sgemm_registers(const float* a, const float* b, float* c, int n) {
  __shared__ __align__(16) float a_tile[kStep][kBlock], b_tile[kStep][kBlock];
  const int first_row = blockIdx.y * kBlock, first_column = blockIdx.x * kBlock;
  const int thread_row = threadIdx.x / 16 * 4, thread_column = threadIdx.x % 16 * 4;
  const int a_row = threadIdx.x / 2, a_k = threadIdx.x % 2 * 4;
  const int b_k = threadIdx.x / 32, b_column = threadIdx.x % 32 * 4;
  float sums[kEach][kEach] = {};
  for (int k = 0; k < n; k += kStep) {
    const float4 of_a = *reinterpret_cast<const float4*>(a + (first_row + a_row) * n + k + a_k);
    const float4 of_b = *reinterpret_cast<const float4*>(b + (k + b_k) * n + first_column + b_column);
    a_tile[a_k + 0][a_row] = of_a.x;
    a_tile[a_k + 1][a_row] = of_a.y;
    a_tile[a_k + 2][a_row] = of_a.z;
    a_tile[a_k + 3][a_row] = of_a.w;
    *reinterpret_cast<float4*>(&b_tile[b_k][b_column]) = of_b;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kStep; ++i) {
      float rows[kEach], columns[kEach];
      for (int half = 0; half < 2; ++half) {
        *reinterpret_cast<float4*>(rows + half * 4) = *reinterpret_cast<float4*>(&a_tile[i][thread_row + half * 64]);
        *reinterpret_cast<float4*>(columns + half * 4) =
            *reinterpret_cast<float4*>(&b_tile[i][thread_column + half * 64]);
      }
      for (int y = 0; y < kEach; ++y)
        for (int x = 0; x < kEach; ++x) sums[y][x] += rows[y] * columns[x];
    }
    __syncthreads();
  }
  for (int y = 0; y < kEach; ++y) {
    const int row = first_row + thread_row + y / 4 * 64 + y % 4;
    for (int half = 0; half < 2; ++half) {
      const float* const four = sums[y] + half * 4;
      *reinterpret_cast<float4*>(c + row * n + first_column + thread_column + half * 64) =
          make_float4(four[0], four[1], four[2], four[3]);
    }
  }
}

// ---- Timing
// ----------------------------------------------------------------------------------------------------------

/// Cycles over time while one thread spins: the clock that the launches before it have left.
__global__ void spin(uint64_t duration, uint64_t* result) {
  const uint64_t start = nanoseconds(), from = cycles();
  while (nanoseconds() - start < duration) {
  }
  result[0] = cycles() - from;
  result[1] = nanoseconds() - start;
}

constexpr int kLaunches = 48;  // in a graph

/// How many sets of operands: launches take them in turn, so that those of the next launch are not in L2.
int sets_for(size_t bytes) {
  constexpr size_t kMoreThanL2 = size_t{256} << 20;
  return once() ? 1 : static_cast<int>(std::clamp<size_t>(kMoreThanL2 / bytes + 1, 2, kLaunches));
}

/// Times `launch(stream, set)`. `amount` is what a launch does, for the rate: bytes, or floating-point operations.
void time(const std::string& name, int sets, double amount, const char* unit, const Launch& launch) {
  cudaStream_t stream;
  check(cudaStreamCreate(&stream), "cudaStreamCreate");
  const cudaGraphExec_t executable = graph_of(stream, name, kLaunches, sets, /*warm=*/sets, launch);
  if (executable == nullptr) return;
  cudaEvent_t start, stop;
  check(cudaEventCreate(&start), "cudaEventCreate");
  check(cudaEventCreate(&stop), "cudaEventCreate");
  DeviceArray<uint64_t> clock(2);
  std::vector<double> microseconds, rates, megahertz;
  for (int repeat = -2; repeat < 15; ++repeat) {
    check(cudaEventRecord(start, stream), "cudaEventRecord");
    check(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
    check(cudaEventRecord(stop, stream), "cudaEventRecord");
    spin<<<1, 1, 0, stream>>>(20'000, clock.data());
    check(cudaGetLastError(), "spin");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start, stop), "cudaEventElapsedTime");
    if (repeat < 0) continue;
    const auto counted = clock.to_host();
    microseconds.push_back(milliseconds * 1e3 / kLaunches);
    rates.push_back(amount / microseconds.back() * 1e-3);
    megahertz.push_back(static_cast<double>(counted[0]) / static_cast<double>(counted[1]) * 1e3);
  }
  report(name, microseconds, "us", "a graph of 48 launches in a chain, that take several sets of operands in turn");
  report(name + ", rate", rates, unit, "from the times above");
  report(name + ", SM clock after it", megahertz, "MHz", "clock64 over globaltimer for 20 us after each graph");
}

/// Ends the benchmark's process with one line of JSON if a result is wrong.
void expect(bool right, const std::string& name) {
  if (right) return;
  std::printf("{\"error\": \"%s: wrong result\"}\n", name.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

/// Small whole numbers, with which sums and products are exact.
std::vector<float> random_numbers(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>(static_cast<int>(generator() >> 29) - 4);
  return numbers;
}

// ---- Benchmarks
// ------------------------------------------------------------------------------------------------------

constexpr uint32_t kFloats = 16 << 20;  // 64 MiB
const char* const kSize = " of 64 MiB";

struct Buffers {
  std::vector<float> numbers = random_numbers(kFloats, 1);
  std::vector<DeviceArray<float>> in, out;
  explicit Buffers(int sets) {
    for (int i = 0; i < sets; ++i) {
      in.emplace_back(kFloats);
      out.emplace_back(kFloats);
      in.back().from_host(numbers);
    }
  }
  int sets() const { return static_cast<int>(in.size()); }
  void clear() {
    check(cudaMemset(out[0].data(), 0xff, out[0].size() * sizeof(float)), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaMemset");
  }
};

template <typename T>
void time_copy(Buffers& buffers, const char* type) {
  const std::string name = std::string("copy by ") + type + kSize;
  constexpr uint32_t kThreads = 256;
  buffers.clear();
  time(name, buffers.sets(), 2. * kFloats * sizeof(float), "GB/s", [&](cudaStream_t stream, int set) {
    copy<<<kFloats * sizeof(float) / sizeof(T) / kThreads, kThreads, 0, stream>>>(
        reinterpret_cast<const T*>(buffers.in[set].data()), reinterpret_cast<T*>(buffers.out[set].data()));
  });
  expect(buffers.out[0].to_host() == buffers.numbers, name);
}

BENCHMARK(copies) {
  Buffers buffers(sets_for(size_t{kFloats} * 2 * sizeof(float)));
  time_copy<float4>(buffers, "float4");
  time_copy<float>(buffers, "float");
}

template <typename T>
void time_reduction(Buffers& buffers, const char* type) {
  const std::string name = std::string("reduction by ") + type + kSize;
  constexpr uint32_t kThreads = 256, kBlocks = 132 * 8;
  buffers.clear();
  time(name, buffers.sets(), 1. * kFloats * sizeof(float), "GB/s", [&](cudaStream_t stream, int set) {
    reduce<<<kBlocks, kThreads, 0, stream>>>(reinterpret_cast<const T*>(buffers.in[set].data()),
                                             kFloats * sizeof(float) / sizeof(T), buffers.out[set].data());
  });
  const auto sums = buffers.out[0].to_host();
  double sum = 0, expected = 0;
  for (uint32_t i = 0; i < kBlocks; ++i) sum += sums[i];
  for (const float number : buffers.numbers) expected += number;
  expect(sum == expected, name);
}

BENCHMARK(reductions) {
  Buffers buffers(sets_for(size_t{kFloats} * sizeof(float)));
  time_reduction<float4>(buffers, "float4");
  time_reduction<float>(buffers, "float");
}

BENCHMARK(transpositions) {
  constexpr int kN = 4096;
  static_assert(kN * kN == kFloats);
  Buffers buffers(sets_for(size_t{kFloats} * 2 * sizeof(float)));
  std::vector<float> expected(kFloats);
  for (int y = 0; y < kN; ++y)
    for (int x = 0; x < kN; ++x) expected[size_t(x) * kN + y] = buffers.numbers[size_t(y) * kN + x];
  const std::pair<const char*, void (*)(const float*, float*, int)> kernels[] = {
      {"naive", transpose_naive}, {"tile", transpose_tiled<kSide>}, {"padded tile", transpose_tiled<kSide + 1>}};
  for (const auto& [what, kernel] : kernels) {
    const std::string name = std::string("transposition 4096 x 4096, ") + what;
    buffers.clear();
    time(name, buffers.sets(), 2. * kFloats * sizeof(float), "GB/s",
         [&, kernel = kernel](cudaStream_t stream, int set) {
           kernel<<<dim3(kN / kSide, kN / kSide), dim3(kSide, kRows), 0, stream>>>(buffers.in[set].data(),
                                                                                   buffers.out[set].data(), kN);
         });
    expect(buffers.out[0].to_host() == expected, name);
  }
}

/// Whether C = A B, by a random vector v: A (B v) = C v, in whole numbers.
bool is_product(const std::vector<float>& a, const std::vector<float>& b, const std::vector<float>& c, int n) {
  if (!std::all_of(c.begin(), c.end(), [](float number) { return std::isfinite(number); })) return false;
  const auto times = [n](const std::vector<float>& matrix, const std::vector<int64_t>& vector) {
    std::vector<int64_t> result(n);
    for (int y = 0; y < n; ++y)
      for (int x = 0; x < n; ++x) result[y] += static_cast<int64_t>(matrix[size_t(y) * n + x]) * vector[x];
    return result;
  };
  std::mt19937 generator(3);
  std::vector<int64_t> v(n);
  for (int64_t& number : v) number = generator() >> 12;
  return times(a, times(b, v)) == times(c, v);
}

void time_sgemm(int n) {
  const size_t count = size_t(n) * n;
  const int sets = sets_for(count * 3 * sizeof(float));
  const auto a = random_numbers(count, 1), b = random_numbers(count, 2);
  std::vector<DeviceArray<float>> on_device;
  for (int i = 0; i < sets; ++i) {
    for (int matrix = 0; matrix < 3; ++matrix) on_device.emplace_back(count);
    on_device[i * 3].from_host(a);
    on_device[i * 3 + 1].from_host(b);
  }
  struct Step {
    const char* name;
    void (*kernel)(const float*, const float*, float*, int);
    dim3 grid, block;
  };
  const dim3 small(n / kSide, n / kSide), large(n / kBlock, n / kBlock);
  for (const Step& step : {Step{"naive", sgemm_naive, small, dim3(kSide, kSide)},
                           Step{"tiled 32 x 32", sgemm_tiled, small, dim3(kSide, kSide)},
                           Step{"8 x 8 in registers", sgemm_registers, large, dim3(256)}}) {
    const std::string name = "sgemm " + std::to_string(n) + ", " + step.name;
    check(cudaMemset(on_device[2].data(), 0xff, count * sizeof(float)), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaMemset");
    time(name, sets, 2. * n * n * n, "GFLOP/s", [&](cudaStream_t stream, int set) {
      DeviceArray<float>* const of_set = on_device.data() + set * 3;
      step.kernel<<<step.grid, step.block, 0, stream>>>(of_set[0].data(), of_set[1].data(), of_set[2].data(), n);
    });
    expect(is_product(a, b, on_device[2].to_host(), n), name);
  }
}

BENCHMARK(sgemm_512) { time_sgemm(512); }
BENCHMARK(sgemm_1024) { time_sgemm(1024); }
BENCHMARK(sgemm_2048) { time_sgemm(2048); }

int main(int argc, char** argv) { return silicon::main(argc, argv); }
