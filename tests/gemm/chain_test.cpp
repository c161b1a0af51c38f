// Two products, one after the other: the block-scaled D of the first is the A of the second as it is, elements and
// scale factors.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/block_scaling.hpp"
#include "harness/device.hpp"
#include "harness/device_buffer.hpp"
#include "harness/reference_product.hpp"
#include "host_matrix.hpp"
#include "stagecraft/gemm/plan.hpp"

namespace stagecraft {
namespace {

using harness::DeviceBuffer;

constexpr int64_t kM = 200, kN = 200, kSecondN = 150, kBatches = 2;  // N ends inside of a block, and M of an atom

int64_t rounded_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

void run(const GemmProblem& problem, const GemmArguments& arguments) {
  const auto error = gemm(problem, arguments);
  if (error) throw std::runtime_error(error->message);
  harness::check(cudaDeviceSynchronize(), "finish the kernel");
}

/// An operand in device memory.
struct DeviceOperand {
  HostOperand host;
  DeviceBuffer<unsigned char> elements, scale_factors;
  GemmOperand operand;

  DeviceOperand(OperandName name, DataType type, int64_t rows, int64_t k, uint64_t seed)
      : DeviceOperand(name, type,
                      MatrixPlaces{rows, k, kBatches, Major::k, rounded_up(k, 128 / bits_of(type)),
                                   rows * rounded_up(k, 128 / bits_of(type))},
                      seed) {}

 private:
  DeviceOperand(OperandName name, DataType type, const MatrixPlaces& places, uint64_t seed)
      : host(random_operand(name, type, places, seed)),
        elements(host.bytes, "an operand"),
        scale_factors(host.scale_factors, "its scale factors"),
        operand{.type = type, .pitch = places.pitch, .batch_stride = places.batch_stride} {}
};

/// Multiplies twice, and compares the second product with that of the first one's result, which is decoded on the host.
/// @param first   all but extents and operands.
/// @param expect  what the first one's result should be, from its sums: one row of them, and the column of D.
/// @param error   the largest that rounding to `type` explains, relative to the largest magnitude.
template <typename Type, typename Expected>
void check_chain(DataType type, GemmProblem first, const GemmArguments& factors, int64_t columns_per_result,
                 const Expected& expected, double error) {
  const std::string reason = harness::reason_without_tcgen05(harness::current_device());
  if (!reason.empty()) GTEST_SKIP() << reason;
  constexpr int64_t kK = 330;
  const int64_t n = kN * columns_per_result;
  const DeviceOperand a(OperandName::a, type, kM, kK, 1), b(OperandName::b, type, n, kK, 2),
      second_b(OperandName::b, type, kSecondN, kN, 3);

  // The first product.
  const int64_t pitch = rounded_up(kN, 128 / bits_of(type)), blocks = rounded_up(kN, 4 * Type::block) / Type::block;
  DeviceBuffer<unsigned char> d(kBatches * kM * pitch * bits_of(type) / 8, "D");
  DeviceBuffer<unsigned char> d_factors(kBatches * rounded_up(kM, 128) * blocks, "the scale factors of D");
  d.poison();
  d_factors.poison();
  first.m = kM;
  first.n = n;
  first.k = kK;
  first.batches = kBatches;
  first.a = a.operand;
  first.b = b.operand;
  first.d = {.type = type, .pitch = pitch, .batch_stride = kM * pitch};
  GemmArguments arguments = factors;
  arguments.a = a.elements.data();
  arguments.a_scale_factors = a.scale_factors.data();
  arguments.b = b.elements.data();
  arguments.b_scale_factors = b.scale_factors.data();
  arguments.d = d.data();
  arguments.d_scale_factors = d_factors.data();
  run(first, arguments);

  // Its result on the host, and whether it is what it should be.
  const auto bytes = d.to_host(), factor_bytes = d_factors.to_host();
  std::vector<double> values;
  double largest = 0, worst = 0;
  for (int64_t batch = 0; batch < kBatches; ++batch) {
    const std::span all_of_a(a.host.values), all_of_b(b.host.values);
    const auto sums = harness::multiply_by_transposed(all_of_a.subspan(batch * kM * kK, kM * kK),
                                                      all_of_b.subspan(batch * n * kK, n * kK), kM, n, kK);
    for (int64_t row = 0; row < kM; ++row) {
      for (int64_t column = 0; column < kN; ++column) {
        const size_t factor =
            batch * rounded_up(kM, 128) * blocks + scale_factor_offset(static_cast<uint32_t>(row),
                                                                       static_cast<uint32_t>(column / Type::block),
                                                                       static_cast<uint32_t>(blocks));
        values.push_back(value_at(type, bytes.data(), (batch * kM + row) * pitch + column) *
                         harness::number_of<typename Type::Scale>(factor_bytes[factor]));
        const double wanted = expected(&sums[row * n], column);
        largest = std::max(largest, std::abs(wanted));
        worst = std::max(worst, std::abs(values.back() - wanted));
      }
    }
  }
  EXPECT_LE(worst, error * largest);

  // The second product reads it where it is.
  DeviceBuffer<float> result(kBatches * kM * kSecondN, "the second product");
  result.poison();
  const GemmProblem second{.m = kM,
                           .n = kSecondN,
                           .k = kN,
                           .batches = kBatches,
                           .a = {.type = type, .pitch = pitch, .batch_stride = kM * pitch},
                           .b = second_b.operand,
                           .d = {.type = DataType::f32}};
  run(second, {.a = d.data(),
               .b = second_b.elements.data(),
               .d = result.data(),
               .a_scale_factors = d_factors.data(),
               .b_scale_factors = second_b.scale_factors.data()});
  const auto actual = result.to_host();
  for (int64_t batch = 0; batch < kBatches; ++batch) {
    const auto reference = harness::scaled_product(
        std::span(values).subspan(batch * kM * kN, kM * kN),
        std::span(second_b.host.values).subspan(batch * kSecondN * kN, kSecondN * kN), kM, kSecondN, kN);
    const auto found = harness::compare_scaled(std::span(actual).subspan(batch * kM * kSecondN, kM * kSecondN),
                                               reference, kN, 256 / bits_of(type));
    EXPECT_EQ(found.wrong, 0u) << "batch " << batch << ": element " << found.worst << " is "
                               << actual[batch * kM * kSecondN + found.worst] << ", and should be "
                               << reference.exact[found.worst];
  }
}

/// Half a unit in the last place of e4m3, whose mantissa has 3 bits.
constexpr double kErrorOfMxfp8 = 0x1p-4;
/// Half the distance of 4 and 6, the largest numbers of e2m1, where the scale factor is rounded up by 1/16.
constexpr double kErrorOfNvfp4 = 17.0 / 16 / 6 + 1e-6;

TEST(ChainedGemms, OfMxfp8PassOnTheResultOfAnActivation) {
  check_chain<Mxfp8>(
      DataType::mxfp8, {.fusion = {.activation = GemmActivation::relu}}, {.alpha = -2}, 1,
      [](const double* sums, int64_t column) { return std::max(-2 * sums[column], 0.0); }, kErrorOfMxfp8);
}

TEST(ChainedGemms, OfMxfp8PassOnTheResultOfAGatedActivation) {
  check_chain<Mxfp8>(
      DataType::mxfp8, {.fusion = {.activation = GemmActivation::gated_silu}}, {}, 2,
      [](const double* sums, int64_t column) {
        const double gate = sums[2 * column];
        return gate / (1 + std::exp(-gate)) * sums[2 * column + 1];
      },
      kErrorOfMxfp8);
}

TEST(ChainedGemms, OfNvfp4PassOnTheSums) {
  check_chain<Nvfp4>(
      DataType::nvfp4, {}, {.alpha = 0.5}, 1, [](const double* sums, int64_t column) { return 0.5 * sums[column]; },
      kErrorOfNvfp4);
}

}  // namespace
}  // namespace stagecraft
