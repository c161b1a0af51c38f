// Fills matrices with random values on the device, and checks products there.
#include <cuda_bf16.h>

#include <cstring>
#include <span>
#include <vector>

#include "checks.hpp"
#include "harness/cuda_error.hpp"
#include "harness/device_buffer.hpp"

namespace stagecraft {
namespace {

using harness::check;
using harness::DeviceBuffer;

/// How C differs from the product.
struct Difference {
  unsigned long long wrong;  // elements that are too far from it
  unsigned worst_excess;     // bits of a non-negative float
};

__device__ uint64_t mixed(uint64_t z) {  // SplitMix64
  z += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

/// Standard normal values (Box and Muller).
__global__ void fill(__nv_bfloat16* values, int64_t size, uint64_t seed) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < size; i += int64_t{gridDim.x} * blockDim.x) {
    const uint64_t bits = mixed(mixed(seed) + i);
    const float radius = sqrtf(-2 * logf((static_cast<float>(bits >> 40) + 1) * 0x1p-24f));
    values[i] = __float2bfloat16(radius * cospif(static_cast<float>(bits & 0xffffff) * 0x1p-23f));
  }
}

__device__ void judge(Difference* difference, double value, double exact, double allowed) {
  const double excess = isnan(value) ? 1e30 : fabs(value - exact) / allowed;
  if (excess > 1) atomicAdd(&difference->wrong, 1ull);
  atomicMax(&difference->worst_excess, __float_as_uint(static_cast<float>(excess)));
}

/// Elements of C against a dot product in double: all of them, or every `step`th. One warp an element.
/// Products of normal values have a variance of 1, so sums a deviation of sqrt(k), and f32 sums of them err by far less
/// than 2^-14 of that; rounding to bf16 errs by up to 2^-8 of the element.
__global__ void compare_elements(const __nv_bfloat16* a, const __nv_bfloat16* b, const __nv_bfloat16* c, int64_t m,
                                 int64_t n, int64_t k, int64_t step, Difference* difference) {
  const int lane = threadIdx.x % 32;
  for (int64_t i = (blockIdx.x * int64_t{blockDim.x} + threadIdx.x) / 32 * step; i < m * n;
       i += int64_t{gridDim.x} * blockDim.x / 32 * step) {
    const int64_t row = i / n, column = i % n;
    double sum = 0;
    for (int64_t j = lane; j < k; j += 32) {
      sum += static_cast<double>(__bfloat162float(a[row * k + j])) * __bfloat162float(b[column * k + j]);
    }
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
    if (lane == 0) judge(difference, __bfloat162float(c[i]), sum, 0x1.02p-8 * fabs(sum) + 0x1p-14 * sqrt(double(k)));
  }
}

/// All elements of C against those of another product that was rounded to bf16 too.
__global__ void compare_products(const __nv_bfloat16* c, const __nv_bfloat16* other, int64_t size, int64_t k,
                                 Difference* difference) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < size; i += int64_t{gridDim.x} * blockDim.x) {
    const double exact = __bfloat162float(other[i]);
    judge(difference, __bfloat162float(c[i]), exact, 0x1p-7 * fabs(exact) + 0x1p-13 * sqrt(double(k)));
  }
}

Mismatch mismatch(const DeviceBuffer<Difference>& difference, int64_t compared) {
  check(cudaGetLastError(), "compare products");
  const Difference found = difference.to_host()[0];
  Mismatch result{.compared = compared, .wrong = static_cast<int64_t>(found.wrong)};
  std::memcpy(&result.worst, &found.worst_excess, sizeof result.worst);
  return result;
}

const std::vector<Difference> kNone(1, Difference{0, 0});

}  // namespace

void fill_normal(__nv_bfloat16* values, int64_t size, uint64_t seed) {
  fill<<<1024, 256>>>(values, size, seed);
  check(cudaGetLastError(), "fill a matrix");
}

Mismatch compare_with_double(const MatrixProduct& p, int64_t most) {
  const DeviceBuffer<Difference> difference(std::span<const Difference>(kNone), "what differs");
  const int64_t size = p.m * p.n, step = size <= most ? 1 : size / most;
  compare_elements<<<512, 256>>>(p.a, p.b, p.c, p.m, p.n, p.k, step, difference.data());
  return mismatch(difference, (size + step - 1) / step);
}

Mismatch compare_with_product(const MatrixProduct& p, const __nv_bfloat16* other) {
  const DeviceBuffer<Difference> difference(std::span<const Difference>(kNone), "what differs");
  compare_products<<<1024, 256>>>(p.c, other, p.m * p.n, p.k, difference.data());
  return mismatch(difference, p.m * p.n);
}

}  // namespace stagecraft
