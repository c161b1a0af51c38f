// Fills matrices with random values on the device, and checks products there.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

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
template <typename Element>
__global__ void fill(Element* values, int64_t size, uint64_t seed) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < size; i += int64_t{gridDim.x} * blockDim.x) {
    const uint64_t bits = mixed(mixed(seed) + i);
    const float radius = sqrtf(-2 * logf((static_cast<float>(bits >> 40) + 1) * 0x1p-24f));
    values[i] = Element(radius * cospif(static_cast<float>(bits & 0xffffff) * 0x1p-23f));
  }
}

__device__ void judge(Difference* difference, double value, double exact, double allowed) {
  const double excess = isnan(value) ? 1e30 : fabs(value - exact) / allowed;
  if (excess > 1) atomicAdd(&difference->wrong, 1ull);
  atomicMax(&difference->worst_excess, __float_as_uint(static_cast<float>(excess)));
}

/// Elements of C against a dot product in double: all of them, or every `step`th. One warp an element.
/// Products of normal values have a variance of 1, so sums a deviation of sqrt(k), and f32 sums of them err by far less
/// than 2^-14 of that; rounding to bf16 errs by up to 2^-8 of the element. Sums of e4m3 are kept in 13 bits behind the
/// point of the largest, and are cut off there once for every 32 products.
template <typename Element>
__global__ void compare_elements(const Element* a, const Element* b, const __nv_bfloat16* c, int64_t m, int64_t n,
                                 int64_t k, int64_t step, Difference* difference) {
  const int lane = threadIdx.x % 32;
  for (int64_t i = (blockIdx.x * int64_t{blockDim.x} + threadIdx.x) / 32 * step; i < m * n;
       i += int64_t{gridDim.x} * blockDim.x / 32 * step) {
    const int64_t row = i / n, column = i % n;
    double sum = 0;
    for (int64_t j = lane; j < k; j += 32) {
      sum += static_cast<double>(static_cast<float>(a[row * k + j])) * static_cast<float>(b[column * k + j]);
    }
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
    if (lane != 0) continue;
    const double cut_off = sizeof(Element) == 1 ? 0x1p-13 * ceil(k / 32.) * (fabs(sum) + sqrt(double(k))) : 0;
    judge(difference, __bfloat162float(c[i]), sum, 0x1.02p-8 * fabs(sum) + 0x1p-14 * sqrt(double(k)) + cut_off);
  }
}

/// All elements of C against those of another product that was rounded to bf16 too.
__global__ void compare_products(const __nv_bfloat16* c, const __nv_bfloat16* other, int64_t size, int64_t k,
                                 bool is_cut_off, Difference* difference) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < size; i += int64_t{gridDim.x} * blockDim.x) {
    const double exact = __bfloat162float(other[i]);
    const double cut_off = is_cut_off ? 0x1p-12 * ceil(k / 32.) * (fabs(exact) + sqrt(double(k))) : 0;
    judge(difference, __bfloat162float(c[i]), exact, 0x1p-7 * fabs(exact) + 0x1p-13 * sqrt(double(k)) + cut_off);
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

void fill_normal(OperandType type, void* values, int64_t size, uint64_t seed) {
  if (type == OperandType::e4m3) {
    fill<<<1024, 256>>>(static_cast<__nv_fp8_e4m3*>(values), size, seed);
  } else {
    fill<<<1024, 256>>>(static_cast<__nv_bfloat16*>(values), size, seed);
  }
  check(cudaGetLastError(), "fill a matrix");
}

Mismatch compare_with_double(const MatrixProduct& p, int64_t most) {
  const DeviceBuffer<Difference> difference(std::span<const Difference>(kNone), "what differs");
  const int64_t size = p.m * p.n, step = size <= most ? 1 : size / most;
  const auto compare = [&](auto* a, auto* b) {
    compare_elements<<<512, 256>>>(a, b, p.c, p.m, p.n, p.k, step, difference.data());
  };
  if (p.type == OperandType::e4m3) {
    compare(static_cast<const __nv_fp8_e4m3*>(p.a), static_cast<const __nv_fp8_e4m3*>(p.b));
  } else {
    compare(static_cast<const __nv_bfloat16*>(p.a), static_cast<const __nv_bfloat16*>(p.b));
  }
  return mismatch(difference, (size + step - 1) / step);
}

Mismatch compare_with_product(const MatrixProduct& p, const __nv_bfloat16* other) {
  const DeviceBuffer<Difference> difference(std::span<const Difference>(kNone), "what differs");
  compare_products<<<1024, 256>>>(p.c, other, p.m * p.n, p.k, p.type == OperandType::e4m3, difference.data());
  return mismatch(difference, p.m * p.n);
}

}  // namespace stagecraft
