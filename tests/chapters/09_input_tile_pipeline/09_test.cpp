// Tests of chapter 09, in the order of its TODOs.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "harness/comparison.hpp"
#include "harness/device.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/product_mistakes.hpp"
#include "harness/random.hpp"
#include "harness/reference_product.hpp"
#include "launches.hpp"

using namespace stagecraft::harness;

namespace {

/// Random numbers in [-1, 1) that are the same in tf32, whose mantissa has 10 bits: multiples of 2^-10.
std::vector<float> random_tf32(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = std::floor(random.uniform() * 0x1p10f) * 0x1p-10f;
  return values;
}

/// A problem, its operands on the device, and the check of its result.
class Product {
 public:
  Product(int m, int n, int k, int k_group_size)
      : m_(m),
        n_(n),
        k_(k),
        k_group_size_(k_group_size),
        a_(random_tf32(size_t(m) * k, fresh_seed() + m)),
        b_(random_tf32(size_t(n) * k, fresh_seed() - n)),
        a_there_(a_, "A"),
        b_there_(b_, "B"),
        c_(size_t(m) * n, "C") {
    c_.poison();
  }

  const float* a() const { return a_there_.data(); }
  const float* b() const { return b_there_.data(); }
  float* c() const { return c_.data(); }

  /// Every element, after the kernel; usual mistakes are named.
  void check() const {
    const std::vector<float> got = c_.to_host();
    const std::vector<double> expected = reference_product<float>(a_, b_, m_, n_, k_);
    const ProductTolerance tolerance{.k = static_cast<size_t>(k_), .output_epsilon = 0x1p-24};
    const Comparison found = compare<float>(got, expected, tolerance);
    if (found.wrong == 0) return;
    FAIL() << found.wrong << " of " << got.size() << " elements of C are wrong, M x N x K = " << m_ << " x " << n_
           << " x " << k_ << ", groups of " << k_group_size_ << hint(got, expected, tolerance) << "\nthe worst is C["
           << found.worst / n_ << "][" << found.worst % n_ << "] = " << got[found.worst] << ", which should be "
           << expected[found.worst] << " (seed " << fresh_seed() << ")";
  }

 private:
  std::string hint(const std::vector<float>& got, const std::vector<double>& product,
                   const ProductTolerance& tolerance) const {
    struct Mistake {
      const char* columns;  // where the tiles of step `step` of `group` seem to come from
      std::function<int(int group, int step)> step_of_k;
    };
    const Mistake mistakes[] = {{"group + step", [](int group, int step) { return group + step; }},
                                {"group", [](int group, int) { return group; }},
                                {"step", [](int, int step) { return step; }},
                                {"group * KGroupSize", [this](int group, int) { return group * k_group_size_; }}};
    std::vector<WrongEpilogue> also;
    for (const auto& [columns, step_of_k] : mistakes) {
      also.push_back({std::string("for step `step` of group `group` the tiles at column (") + columns +
                          ") * kTileK came. How many steps of K are in the groups before it?",
                      [this, step_of = step_of_k](const Guess&, int row, int column) {
                        double sum = 0;
                        for (int k = 0; k < k_; ++k) {
                          const int step = k / kTileK, from = step_of(step / k_group_size_, step % k_group_size_);
                          const int of_k = from * kTileK + k % kTileK;
                          if (of_k < k_) sum += double{a_[size_t(row) * k_ + of_k]} * b_[size_t(column) * k_ + of_k];
                        }
                        return sum;
                      }});
    }
    return likely_mistake<float, float>(got, product, a_, b_,
                                        {.m = m_,
                                         .n = n_,
                                         .k = k_,
                                         .tile_m = kTileM,
                                         .tile_n = kTileN,
                                         .tile_k = kTileK,
                                         .mma_k = 8,
                                         .k_group = k_group_size_},
                                        tolerance, TheSum{}, also);
  }

  int m_, n_, k_, k_group_size_;
  std::vector<float> a_, b_;
  DeviceBuffer<float> a_there_, b_there_, c_;
};

void check_multiply(int m, int n, int k, int k_group_size) {
  const Product product(m, n, k, k_group_size);
  launch_multiply(product.a(), product.b(), product.c(), m, n, k, k_group_size);
  finish_kernel("multiply");
  product.check();
}

TEST(Chapter09, Todo1And2FourStagesOfOneTile) { check_multiply(kTileM, kTileN, 12 * kTileK, 1); }

TEST(Chapter09, Todo1And2OneStageOfFourTiles) { check_multiply(kTileM, kTileN, 12 * kTileK, 4); }

TEST(Chapter09, Todo1And2TwoStagesOfTwoTiles) { check_multiply(kTileM, kTileN, 12 * kTileK, 2); }

TEST(Chapter09, Todo1And2MatricesThatNoGroupFits) {
  for (const auto& [m, n, k] : {std::array{1, 1, 4}, {77, 10, 52}, {130, 33, 72}}) {
    for (const int k_group_size : {1, 2, 4}) {
      check_multiply(m, n, k, k_group_size);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Chapter09, Todo3AsksWorksAndThenWaitsIfNeeded) {
  struct Job {
    int k, pieces;
  };
  for (const auto& [k, pieces] : {Job{20 * kTileK, 50}, {20 * kTileK, 1}, {2 * kTileK, 3}, {6 * kTileK, 0}}) {
    const Product product(kTileM, kTileN, k, 2);
    Random random(fresh_seed() + pieces);
    std::vector<uint32_t> numbers(pieces * kPiece);
    uint32_t expected = 0;
    for (uint32_t& number : numbers) expected += number = static_cast<uint32_t>(random.bits());
    const DeviceBuffer<uint32_t> numbers_there(numbers, "the numbers");
    DeviceBuffer<uint32_t> sum(1, "the sum");
    DeviceBuffer<int> while_waiting(1, "the pieces while waiting");
    sum.poison();
    while_waiting.poison();
    launch_multiply_and_add(product.a(), product.b(), product.c(), kTileM, kTileN, k, numbers_there.data(), pieces,
                            sum.data(), while_waiting.data());
    finish_kernel("multiply_and_add");
    SCOPED_TRACE(testing::Message() << k / kTileK << " k-tiles, and " << pieces << " pieces to add up");
    product.check();
    if (HasFatalFailure()) return;
    ASSERT_EQ(sum.to_host()[0], expected) << "each piece must be added, once";
    const int for_free = while_waiting.to_host()[0];
    if (k > 8 * kTileK && pieces > 0) {
      ASSERT_GE(for_free, 1) << "no piece was added up while a stage was in use: does the work come after the wait, or "
                                "does try_acquire_producer() say yes too early?";
    }
    if (k == 2 * kTileK) {
      ASSERT_EQ(for_free, 0) << "the only stage that is filled was free from the start, and the answer was no";
    }
  }
}

TEST(Chapter09, Todo3BothRolesAreAnswered) {
  struct Moment {
    const char* what;
    int is_filled, is_free;
  };
  constexpr Moment kMoments[kQuestions] = {{"in a fresh ring", 0, 1},
                                           {"when the producer has filled stage 0, and has stage 1 in hand", 1, 1},
                                           {"when it has filled both stages, and has stage 0 in hand", 1, 0},
                                           {"when the consumer has freed stage 0, and has stage 1 in hand", 1, 1},
                                           {"when it has freed both stages, and has stage 0 in hand", 0, 1}};
  DeviceBuffer<int> filled(kQuestions, "whether filled"), free(kQuestions, "whether free");
  filled.poison();
  free.poison();
  launch_ask_after_each_move(filled.data(), free.data());
  finish_kernel("ask_after_each_move");
  const std::vector<int> got_filled = filled.to_host(), got_free = free.to_host();
  for (int i = 0; i < kQuestions; ++i) {
    ASSERT_EQ(got_filled[i], kMoments[i].is_filled) << "try_acquire_consumer(), in a ring of 2, " << kMoments[i].what;
    ASSERT_EQ(got_free[i], kMoments[i].is_free) << "try_acquire_producer(), in a ring of 2, " << kMoments[i].what;
  }
}

TEST(Chapter09, Todo4ABlockStaysUntilItsNeighbourHasRead) {
  for (const auto& [m, n, k] : {std::array{2 * kTileM, kTileN, 12 * kTileK}, {200, 24, 100}, {2 * kTileM, 1, 4}}) {
    const Product product(m, n, k, 2);
    launch_multiply_in_pairs(product.a(), product.b(), product.c(), m, n, k);
    finish_kernel("multiply_in_pairs");
    product.check();
    if (HasFatalFailure()) return;
  }
}

TEST(Chapter09, Todo5TheTensorCoreFreesTheStages) {
  if (const std::string reason = reason_without_tcgen05(current_device()); !reason.empty()) GTEST_SKIP() << reason;
  for (const auto& [m, n, k] : {std::array{kTileM, kTileN, 12 * kTileK}, {1, 1, 4}, {130, 33, 200}}) {
    const Product product(m, n, k, 2);
    launch_multiply_on_tensor_core(product.a(), product.b(), product.c(), m, n, k);
    finish_kernel("multiply_on_tensor_core");
    product.check();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
