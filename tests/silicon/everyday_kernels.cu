// Kernels as people bring them: a thread to a row, streams by 16 bytes, words far from each other, and softmax of long
// rows. They are of the kinds that the model of the chip missed by 20 to 60% (docs/timing.md).
#include "kernel_timing.hpp"

using namespace silicon;

/// Mean and variance of each row, and the row without them: a thread goes through a row three times.
__global__ void __launch_bounds__(128) norms_by_threads(const float* in, float* out, int columns) {
  const size_t row = size_t{blockIdx.x} * 128 + threadIdx.x;
  const float* const from = in + row * columns;
  float sum = 0, squares = 0;
  for (int i = 0; i < columns; ++i) sum += from[i];
  const float mean = sum / columns;
  for (int i = 0; i < columns; ++i) squares += (from[i] - mean) * (from[i] - mean);
  const float scale = rsqrtf(squares / columns + 1e-5f);
  for (int i = 0; i < columns; ++i) out[row * columns + i] = (from[i] - mean) * scale;
}

/// The row of a table for each token, word by word.
__global__ void __launch_bounds__(256)
    rows_by_threads(const float* table, const uint32_t* tokens, float* out, int columns) {
  const size_t token = size_t{blockIdx.x} * 256 + threadIdx.x;
  const float* const from = table + size_t{tokens[token] % 16384} * columns;
  float* const to = out + token * columns;
  for (int i = 0; i < columns; ++i) to[i] = 2.f * from[i];
}

/// One word of each long row.
__global__ void __launch_bounds__(256) word_of_rows(const float* in, const uint32_t* which, float* out, int columns) {
  const size_t row = size_t{blockIdx.x} * 256 + threadIdx.x;
  out[row] = __logf(1.f + in[row * columns + which[row] % columns]);
}

/// x / (1 + exp(-x)) of one half of a row by the other.
__global__ void __launch_bounds__(256) gated(const float4* gate, const float4* in, float4* out) {
  const size_t i = size_t{blockIdx.x} * 256 + threadIdx.x;
  const float4 g = gate[i], x = in[i];
  const auto one = [](float a, float b) { return __fdividef(a, 1.f + __expf(-a)) * b; };
  out[i] = {one(g.x, x.x), one(g.y, x.y), one(g.z, x.z), one(g.w, x.w)};
}

/// A step with momentum.
__global__ void __launch_bounds__(512) momentum_step(float* weights, const float* gradients, float* momenta) {
  const size_t i = size_t{blockIdx.x} * 512 + threadIdx.x;
  const float momentum = 0.9f * momenta[i] + gradients[i];
  momenta[i] = momentum;
  weights[i] -= 0.01f * (momentum + 0.1f * weights[i]);
}

/// Softmax, a warp to a row: maximum and sum in one pass, then another.
__global__ void __launch_bounds__(256) online_softmax(const float* in, float* out, int columns) {
  const size_t row = size_t{blockIdx.x} * 8 + threadIdx.x / 32;
  const float* const from = in + row * columns;
  float most = -INFINITY, sum = 0;
  for (int i = lane(); i < columns; i += 32) {
    const float larger = fmaxf(most, from[i]);
    sum = sum * __expf(most - larger) + __expf(from[i] - larger);
    most = larger;
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    const float other = __shfl_xor_sync(~0u, most, distance), other_sum = __shfl_xor_sync(~0u, sum, distance);
    const float larger = fmaxf(most, other);
    sum = sum * __expf(most - larger) + other_sum * __expf(other - larger);
    most = larger;
  }
  for (int i = lane(); i < columns; i += 32) out[row * columns + i] = __fdividef(__expf(from[i] - most), sum);
}

template <typename Combine>
__device__ float of_block(float value, Combine combine) {
  __shared__ float of_warp[8];
  for (int distance = 16; distance > 0; distance /= 2) value = combine(value, __shfl_xor_sync(~0u, value, distance));
  __syncthreads();
  if (lane() == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  value = of_warp[0];
  for (int i = 1; i < 8; ++i) value = combine(value, of_warp[i]);
  return value;
}

/// Softmax, a block to a row, in four passes.
__global__ void __launch_bounds__(256) softmax_by_blocks(const float* in, float* out, int columns) {
  const float* const from = in + size_t{blockIdx.x} * columns;
  float* const to = out + size_t{blockIdx.x} * columns;
  float most = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < columns; i += 256) most = fmaxf(most, from[i]);
  most = of_block(most, [](float a, float b) { return fmaxf(a, b); });
  for (int i = threadIdx.x; i < columns; i += 256) to[i] = __expf(from[i] - most);
  for (int i = threadIdx.x; i < columns; i += 256) sum += to[i];
  sum = of_block(sum, [](float a, float b) { return a + b; });
  for (int i = threadIdx.x; i < columns; i += 256) to[i] = __fdividef(to[i], sum);
}

/// Gradients of a bias and a scale: a warp to a row, sums of columns by atomic additions.
__global__ void __launch_bounds__(256)
    scale_gradients(const float* in, const float* gradients, float* scale, float* bias, int columns) {
  const size_t row = size_t{blockIdx.x} * 8 + threadIdx.x / 32;
  extern __shared__ float sums[];
  for (int i = threadIdx.x; i < 2 * columns; i += 256) sums[i] = 0;
  __syncthreads();
  for (int i = lane(); i < columns; i += 32) {
    const float gradient = gradients[row * columns + i];
    atomicAdd(&sums[i], gradient);
    atomicAdd(&sums[columns + i], gradient * in[row * columns + i]);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < columns; i += 256) {
    atomicAdd(&bias[i], sums[i]);
    atomicAdd(&scale[i], sums[columns + i]);
  }
}

// ---- Times
// -----------------------------------------------------------------------------------------------------------

BENCHMARK(row_norms) {
  const size_t count = 16384 * 512;
  const int sets = sets_of(2 * 4 * count);
  auto in = arrays<float>(sets, count), out = arrays<float>(sets, count);
  time("norms of 16384 rows of 512, a thread each", sets, [&](cudaStream_t stream, int set) {
    norms_by_threads<<<128, 128, 0, stream>>>(in[set].data(), out[set].data(), 512);
  });
}
BENCHMARK(table_rows) {
  const int sets = sets_of(8 * 16384 * 512);
  auto table = arrays<float>(sets, 16384 * 512), out = arrays<float>(sets, 16384 * 512);
  DeviceArray<uint32_t> tokens(16384);
  tokens.from_host(numbers(16384));
  time("16384 rows of 512 of a table, a thread each", sets, [&](cudaStream_t stream, int set) {
    rows_by_threads<<<64, 256, 0, stream>>>(table[set].data(), tokens.data(), out[set].data(), 512);
  });
}
BENCHMARK(far_words) {
  auto in = arrays<float>(2, size_t{16384} * 32000);
  DeviceArray<uint32_t> which(16384);
  DeviceArray<float> out(16384);
  which.from_host(numbers(16384));
  time("a word of each of 16384 rows of 32000", 2, [&](cudaStream_t stream, int set) {
    word_of_rows<<<64, 256, 0, stream>>>(in[set].data(), which.data(), out.data(), 32000);
  });
}
BENCHMARK(gates) {
  const int sets = sets_of(12 * 4 * kMi);
  auto gate = arrays<float4>(sets, kMi), in = arrays<float4>(sets, kMi), out = arrays<float4>(sets, kMi);
  time("4 Mi words by a gate, 16 bytes a thread", sets, [&](cudaStream_t stream, int set) {
    gated<<<kMi / 256, 256, 0, stream>>>(gate[set].data(), in[set].data(), out[set].data());
  });
}
BENCHMARK(momentum) {
  const int sets = sets_of(12 * 4 * kMi);
  auto weights = arrays<float>(sets, 4 * kMi), gradients = arrays<float>(sets, 4 * kMi),
       momenta = arrays<float>(sets, 4 * kMi);
  time("a step with momentum, 4 Mi weights", sets, [&](cudaStream_t stream, int set) {
    momentum_step<<<4 * kMi / 512, 512, 0, stream>>>(weights[set].data(), gradients[set].data(), momenta[set].data());
  });
}
BENCHMARK(softmax_online) {
  auto in = arrays<float>(2, size_t{4096} * 32000), out = arrays<float>(2, size_t{4096} * 32000);
  time("softmax of 4096 rows of 32000, online, a warp each", 2, [&](cudaStream_t stream, int set) {
    online_softmax<<<512, 256, 0, stream>>>(in[set].data(), out[set].data(), 32000);
  });
}
BENCHMARK(softmax_blocks) {
  auto in = arrays<float>(2, size_t{4096} * 32000), out = arrays<float>(2, size_t{4096} * 32000);
  time("softmax of 4096 rows of 32000, a block each", 2, [&](cudaStream_t stream, int set) {
    softmax_by_blocks<<<4096, 256, 0, stream>>>(in[set].data(), out[set].data(), 32000);
  });
}
BENCHMARK(gradients_of_scales) {
  const size_t count = 8192 * 1024;
  const int sets = sets_of(2 * 4 * count);
  auto in = arrays<float>(sets, count), gradients = arrays<float>(sets, count);
  DeviceArray<float> scale(1024), bias(1024);
  time("gradients of 1024 scales and biases from 8192 rows", sets, [&](cudaStream_t stream, int set) {
    scale_gradients<<<1024, 256, 8192, stream>>>(in[set].data(), gradients[set].data(), scale.data(), bias.data(),
                                                 1024);
  });
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
