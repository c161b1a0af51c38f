// What each type costs, and how accurate its products are: the same matrices in each, multiplied by the kernels of this
// chapter and compared with the product in double.
//   block_scaled_accuracy cost|accuracy
#include <cuda_bf16.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "harness/block_scaling.hpp"
#include "harness/cuda_error.hpp"
#include "harness/device.hpp"
#include "harness/device_buffer.hpp"
#include "problem.cuh"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/scale_factors.hpp"

namespace {

using namespace stagecraft;
using namespace stagecraft::harness;

// ---- Cost -----------------------------------------------------------------------------------------------------------

void print_cost(const char* name, double bits, int k, size_t tiles, size_t scales, int copies, int mmas, int columns) {
  std::printf("%-10s %6.2f %5d %7zu %7zu %8d %6d %9d\n", name, bits, k, tiles, scales, copies, mmas, columns);
}

template <typename Type>
void print_cost(const char* name) {
  using P = Payload<Type, 128, 1>;
  using Scales = TmemScaleFactors<typename P::SfaTile, typename P::SfbTile>;
  constexpr int kBits = element_bits<typename Type::Element>;
  constexpr Mma kMma = scaled_mma_of<typename P::ATile, typename P::BTile, typename P::SfaTile>();
  print_cost(name, kBits + 8.0 / Type::block, kTileK<Type>, P::ATile::bytes + P::BTile::bytes,
             P::SfaTile::bytes + P::SfbTile::bytes,
             (P::SfaTile::bytes + P::SfbTile::bytes) / P::SfaTile::bytes_per_atom, kTileK<Type> / kMma.k(),
             Scales::tmem_columns);
}

void print_costs() {
  std::printf("%-10s %6s %5s %7s %7s %8s %6s %9s\n", "one k-tile", "bits", "K", "tiles", "scales", "copies", "MMAs",
              "columns");
  print_cost<Mxfp8>("mxfp8");
  print_cost<Nvfp4>("nvfp4");
  print_cost<Mxfp4>("mxfp4");
  using P = BlockwisePayload<1>;
  constexpr Mma kMma = mma_of<P::ATile, P::BTile>();
  print_cost("blockwise", 8 + 32.0 / kScaledK, kScaledK, P::ATile::bytes + P::BTile::bytes, P::AScalesTile::bytes, 0,
             kScaledK / kMma.k(), 0);
}

// ---- Accuracy -------------------------------------------------------------------------------------------------------

constexpr size_t kM = 256, kN = 256, kK = 2048;

/// The mean over the rows of C of how far a row of `a` is from that of `b`, relative to that of `whole`.
template <typename A, typename B>
double distance(const std::vector<A>& a, const std::vector<B>& b, const std::vector<double>& whole) {
  double sum = 0;
  for (size_t row = 0; row < kM; ++row) {
    double difference = 0, squares = 0;
    for (size_t i = row * kN; i < (row + 1) * kN; ++i) {
      difference += (a[i] - b[i]) * (a[i] - b[i]);
      squares += whole[i] * whole[i];
    }
    sum += std::sqrt(difference / squares);
  }
  return sum / kM;
}

/// @param quantised  the product of the quantised operands, exactly.
/// @param kernel     what the kernel makes of them; empty for none.
void print_errors(const char* name, const std::vector<double>& exact, const std::vector<double>& quantised,
                  const std::vector<float>& kernel) {
  std::printf("  %-26s %9.2f %%", name, 100 * distance(quantised, exact, exact));
  if (!kernel.empty()) std::printf(" %12.6f %%", 100 * distance(kernel, quantised, exact));
  std::printf("\n");
}

struct Operands {
  std::vector<float> a, b;
  std::vector<double> exact;
};

std::vector<double> product_of(const std::vector<double>& a, const std::vector<double>& b) {
  return multiply_by_transposed(a, b, kM, kN, kK);
}

template <typename Launch>
std::vector<float> run(Launch launch) {
  DeviceBuffer<float> c(kM * kN, "C");
  c.poison();
  launch(c.data());
  check(cudaDeviceSynchronize(), "finish the kernel");
  return c.to_host();
}

template <typename Type>
void print_errors(const char* name, const Operands& operands) {
  const auto a = quantise<Type>(operands.a, kM, kK), b = quantise<Type>(operands.b, kN, kK);
  const BlockScaledBuffers there_a(a, "A"), there_b(b, "B");
  const auto c = run([&](float* c) {
    launch_block_scaled<Type>({there_a.elements.data(), there_a.scale_factors.data()},
                              {there_b.elements.data(), there_b.scale_factors.data()}, c, kM, kN, kK);
  });
  print_errors(name, operands.exact, product_of(a.values, b.values), c);
}

/// @param whole  one scale for each matrix: the kernel is given it for each block.
void print_blockwise_errors(const char* name, const Operands& operands, bool whole) {
  const auto of = [&](const std::vector<float>& values, size_t block_rows) {
    BlockwiseMatrix matrix = whole ? quantise_blockwise<__nv_fp8_e4m3>(values, kM, kK, kM, kK)
                                   : quantise_blockwise<__nv_fp8_e4m3>(values, kM, kK, block_rows, kScaledK);
    if (!whole) return matrix;
    const float scale = matrix.scales[0];
    matrix.scales_in_row = (kM / block_rows + 3) / 4 * 4;
    matrix.scales.assign(kK / kScaledK * matrix.scales_in_row, scale);
    return matrix;
  };
  const BlockwiseMatrix a = of(operands.a, 1), b = of(operands.b, kScaledColumns);
  const BlockwiseBuffers there_a(a, "A"), there_b(b, "B");
  const auto operand = [](const BlockwiseMatrix& matrix, const BlockwiseBuffers& there) {
    return BlockwiseOperand{reinterpret_cast<const __nv_fp8_e4m3*>(there.elements.data()), there.scales.data(),
                            static_cast<int64_t>(matrix.scales_in_row)};
  };
  const auto c = run([&](float* c) { launch_blockwise(operand(a, there_a), operand(b, there_b), c, kM, kN, kK); });
  print_errors(name, operands.exact, product_of(a.values, b.values), c);
}

std::vector<double> widen(const std::vector<float>& values) { return {values.begin(), values.end()}; }

std::vector<double> rounded_to_bf16(const std::vector<float>& values) {
  std::vector<double> rounded;
  for (const float value : values) rounded.push_back(static_cast<float>(__nv_bfloat16(value)));
  return rounded;
}

void print_errors_of(const char* title, const std::vector<float>& a, const std::vector<float>& b) {
  const Operands operands{a, b, product_of(widen(a), widen(b))};
  std::printf("%s\n  %-26s %11s %14s\n", title, "", "quantising", "adding up");
  print_errors("bf16, for comparison", operands.exact, product_of(rounded_to_bf16(a), rounded_to_bf16(b)), {});
  print_blockwise_errors("e4m3, a scale per matrix", operands, true);
  print_blockwise_errors("e4m3, blockwise f32 scales", operands, false);
  print_errors<Mxfp8>("mxfp8", operands);
  print_errors<Nvfp4>("nvfp4", operands);
  print_errors<Mxfp4>("mxfp4", operands);
}

/// Sums of uniform numbers, which are nearly normal, with a deviation of 1.
std::vector<float> nearly_normal(size_t size, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(size);
  for (float& value : values) {
    for (int i = 0; i < 3; ++i) value += random.uniform();
  }
  return values;
}

void print_accuracy() {
  const std::vector<float> a = nearly_normal(kM * kK, 1), b = nearly_normal(kN * kK, 2);
  print_errors_of("A and B: normal", a, b);

  std::vector<float> small_rows = a;
  for (size_t i = 0; i < a.size(); ++i) small_rows[i] = std::ldexp(a[i], -static_cast<int>(i / kK % 20));
  print_errors_of("rows of A: from 1 to 2^-19 times as large", small_rows, b);

  std::vector<float> large_columns = a, small_columns = b;
  for (size_t i = 0; i < a.size(); ++i) {
    if (i % kK % 64 != 17) continue;
    large_columns[i] *= 100;
    small_columns[i] /= 100;
  }
  print_errors_of("one column of A in 64: 100 times as large, and of B a 100th", large_columns, small_columns);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string what = argc == 2 ? argv[1] : "";
  if (what == "cost") {
    print_costs();
  } else if (what == "accuracy") {
    require_tcgen05(current_device());
    print_accuracy();
  } else {
    std::fprintf(stderr, "usage: block_scaled_accuracy cost|accuracy\n");
    return 2;
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "block_scaled_accuracy: %s\n", error.what());
  return 1;
}
