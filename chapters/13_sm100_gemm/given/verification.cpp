#include "verification.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "harness/comparison.hpp"
#include "harness/device_buffer.hpp"
#include "harness/product_mistakes.hpp"
#include "harness/reference_product.hpp"
#include "host_matrix.hpp"

namespace stagecraft {
namespace {

using harness::DeviceBuffer;

int64_t rounded_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

void pad_strides(GemmOperand& operand, int64_t rows, int64_t k) {
  const int64_t multiple = 128 / bits_of(operand.type);
  const int64_t contiguous = operand.major == Major::k ? k : rows, lines = operand.major == Major::k ? rows : k;
  if (operand.pitch == 0) operand.pitch = rounded_up(contiguous, multiple);
  if (operand.batch_stride == 0) operand.batch_stride = lines * operand.pitch;
}

/// Throws when the host does not have the memory, before it allocates any.
void require_host_memory(const GemmProblem& problem) {
  const double m = problem.m, n = problem.n, k = problem.k, batches = problem.batches;
  // The values as floats and doubles, the bytes of the matrices, and the reference.
  const double needed = batches * ((m * k + n * k) * 16 + m * n * 16);
  const double present = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (needed <= present) return;
  char message[200];
  std::snprintf(message, sizeof message,
                "the matrices and the reference product need %.1f GiB of host memory, and this machine has %.1f GiB. "
                "Choose smaller sizes.",
                needed / 0x1p30, present / 0x1p30);
  throw std::invalid_argument(message);
}

/// A number, and how far what a kernel computes for it in f32 may be from it. A value that is infinite or NaN is exact;
/// an infinite error permits anything.
struct Bounded {
  double value = 0, error = 0;
};

/// The same where `exact.value` is not finite, or rounds to infinity from `limit` on.
Bounded with_overflow(Bounded exact, double limit) {
  const double magnitude = std::abs(exact.value);
  if (std::isnan(exact.error) || exact.error == HUGE_VAL) return {exact.value, HUGE_VAL};
  if (!std::isfinite(exact.value)) return {exact.value, 0};
  if (magnitude - exact.error >= limit) return {std::copysign(HUGE_VAL, exact.value), 0};
  return {exact.value, magnitude + exact.error >= limit ? HUGE_VAL : exact.error};
}

/// What f32 makes of the result of an operation. Source: IEEE 754, "Rounding-direction attributes" (half a unit beyond
/// the largest number, and more, becomes infinite).
Bounded in_f32(Bounded exact) {
  if (std::isfinite(exact.value)) {
    exact.error += std::max((std::abs(exact.value) + exact.error) * 0x1p-24, 0x1p-150);
  }
  return with_overflow(exact, 0x1.ffffffp127);
}

/// The product, before it is rounded.
Bounded operator*(Bounded x, Bounded y) {
  const double value = x.value * y.value;
  if (std::isfinite(x.value) && std::isfinite(y.value)) {
    return {value, std::abs(x.value) * y.error + std::abs(y.value) * x.error + x.error * y.error};
  }
  // Infinity times a number of which not even the sign is known.
  const bool is_known = (std::abs(x.value) > x.error || x.error == 0) && (std::abs(y.value) > y.error || y.error == 0);
  return {value, is_known ? 0 : HUGE_VAL};
}

/// The scales of A and B where factors are in device memory.
constexpr float kAScale = 1.5, kBScale = -0.5;

/// The epilogue in double precision, and how far its results may be off.
///
/// Each step rounds to f32, as a kernel does, and passes the error of what it gets on: a sum has the error of
/// harness::ProductTolerance, a factor multiplies it, an activation by at most 1.13, the steepest slope of any here,
/// and rounds to about 21 bits.
class ReferenceEpilogue {
 public:
  ReferenceEpilogue(const GemmCase& run, const std::vector<float>& row_scales, const std::vector<float>& column_scales,
                    const std::vector<float>& bias, const std::vector<float>& c)
      : run_(run),
        row_scales_(row_scales),
        column_scales_(column_scales),
        bias_(bias),
        c_(c),
        sums_{.k = static_cast<size_t>(run.problem.k),
              .output_epsilon = 0,
              .mma_k = static_cast<size_t>(256 / bits_of(run.problem.a.type))} {}

  /// What goes into the activation.
  /// @param product  the batch, or the group, whose matrix of B gave the sum.
  Bounded before_activation(double sum, int64_t batch, int64_t product, int64_t row, int64_t column) const {
    const auto& [m, n, k, batches, a, b, d, fusion, c, second, groups] = run_.problem;
    Bounded exact, result{sum, sums_(sum)};
    const auto multiply = [&](float factor) {
      exact = result * Bounded{factor};
      result = in_f32(exact);
    };
    const auto add = [&](double term) {
      const double rounding = std::abs(term) * 0x1p-24;
      const Bounded fused = in_f32({exact.value + term, exact.error + rounding});
      result = in_f32({result.value + term, result.error + rounding});
      // Whether it rounds the product first is a kernel's matter.
      if (std::isfinite(fused.value) != std::isfinite(result.value)) result.error = HUGE_VAL;
      exact = result;
    };
    multiply(fusion.device_factors ? run_.alpha * kAScale * kBScale : run_.alpha);
    if (fusion.row_scales) multiply(row_scales_[batch * m + row]);
    if (fusion.column_scales) multiply(column_scales_[product * n + column]);
    if (fusion.c && run_.beta != 0) add(static_cast<double>(run_.beta) * c_[(batch * m + row) * n + column]);
    if (fusion.bias) add(bias_[product * n + column]);
    return result;
  }

  /// What comes out of it. `gate` is the left one of two columns, if there are two.
  Bounded activated(Bounded x, Bounded gate) const {
    const auto logistic = [](double y) { return 1 / (1 + std::exp(-y)); };
    const auto times = [](Bounded argument, double slope) -> Bounded {
      constexpr double kSteepest = 1.13, kFunctions = 0x1p-19;
      const double value = argument.value * slope;
      if (!std::isfinite(argument.value)) return {value, argument.error};
      return {value, kSteepest * argument.error + kFunctions * std::abs(argument.value) + 0x1p-126};
    };
    switch (run_.problem.fusion.activation) {
      case GemmActivation::none: return x;
      case GemmActivation::relu: return {std::max(x.value, 0.0), x.error};
      case GemmActivation::gelu: return times(x, 0.5 * (1 + std::erf(std::sqrt(0.5) * x.value)));
      case GemmActivation::gelu_tanh:
        return times(x, logistic(2 * std::sqrt(2 / M_PI) * (x.value + 0.044715 * std::pow(x.value, 3))));
      case GemmActivation::silu: return times(x, logistic(x.value));
      case GemmActivation::gated_silu: return in_f32(times(gate, logistic(gate.value)) * x);
    }
    return x;
  }

  /// What is stored.
  Bounded scaled(Bounded y) const { return run_.problem.fusion.scale ? in_f32(y * Bounded{run_.scale}) : y; }

 private:
  const GemmCase& run_;
  const std::vector<float>&row_scales_, &column_scales_, &bias_, &c_;
  harness::ProductTolerance sums_;
};

/// How far an element is from the reference; infinite where it is a number and the other is none.
double difference_of(double actual, Bounded expected) {
  if (actual == expected.value || expected.error == HUGE_VAL) return 0;
  if (std::isnan(actual) || std::isnan(expected.value)) {
    return std::isnan(actual) && std::isnan(expected.value) ? 0 : HUGE_VAL;
  }
  return std::abs(actual - expected.value);
}

/// The larger number; NaN is larger than any.
double larger(double x, double y) { return std::isnan(x) || x > y ? x : y; }

/// In place of an error: no kernel may write the element.
constexpr double kUntouched = -1;

/// A number as a type holds it, and the error with rounding.
/// @param factor  its scale factor, of a block-scaled type.
Bounded stored(Bounded exact, DataType type, double factor) {
  if (exact.error == kUntouched) return exact;
  if (std::isnan(exact.value) || std::isnan(factor)) return {NAN, 0};
  double relative = 0x1p-24, smallest = 0x1p-149, largest = HUGE_VAL, limit = HUGE_VAL;
  switch (type) {
    case DataType::mxfp4:
    case DataType::nvfp4: {
      const double most =
          (std::abs(exact.value) + exact.error) / factor;  // numbers are 0.5 apart, from 2 on 1, from 4 on 2
      relative = 0;
      smallest = (most < 2 ? 0.25 : most < 4 ? 0.5 : 1) * factor * (1 + 0x1p-20);  // the device divides in f32
      largest = 6 * factor;
      break;
    }
    case DataType::bf16:
      relative = 0x1p-8;
      smallest = 0x1p-134;
      limit = 0x1.ffp127;
      break;
    case DataType::f16:
      relative = 0x1p-11;
      smallest = 0x1p-25;
      limit = 65520;
      break;
    case DataType::mxfp8:
    case DataType::e4m3:
      relative = 0x1p-4;
      smallest = 0x1p-10 * factor;
      largest = 448 * factor;
      break;  // beyond it saturates
    default: break;
  }
  const auto [value, error] = with_overflow(exact, limit);
  if (std::isinf(value)) return {std::clamp(value, -largest, largest), largest == HUGE_VAL ? error : smallest};
  return {std::clamp(value, -largest, largest), error + std::max((std::abs(value) + error) * relative, smallest)};
}

/// The scale factors of D in device memory, and their comparison with the reference.
class CheckedScaleFactors {
 public:
  /// @param places  of D.
  /// @param groups  rows of each, where D has contiguous groups, whose scale factors are those of matrices.
  CheckedScaleFactors(DataType type, const MatrixPlaces& places, std::vector<int64_t> groups)
      : type_(type),
        places_(places),
        block_(scale_block_of(type)),
        blocks_((places.columns + block_ - 1) / block_),
        padded_blocks_(rounded_up(blocks_, 4)),
        memory_(is_block_scaled(type) ? number_rows(std::move(groups)) * padded_blocks_ : 16, "D's scale factors") {
    memory_.poison();
  }

  unsigned char* address() { return memory_.data(); }

  /// Compares all with what `expected(batch, row, column)` asks for, a Bounded, and keeps them for `factor()`. Those
  /// beyond the last block of a row must be zero, and those of other rows untouched.
  template <typename Expected>
  void compare(const Expected& expected, GemmVerdict& verdict) {
    found_ = memory_.to_host();
    if (!is_block_scaled(type_)) return;
    std::vector<unsigned char> others = found_;
    for (int64_t batch = 0; batch < places_.batches; ++batch) {
      for (int64_t row = 0; row < places_.rows; ++row) {
        if (expected(batch, row, 0).error == kUntouched) continue;
        for (int64_t block = 0; block < padded_blocks_; ++block) {
          double least = 0, most = 0;  // of the largest magnitude in the block
          for (int64_t column = block * block_; column < std::min((block + 1) * block_, places_.columns); ++column) {
            const Bounded value = expected(batch, row, column);
            least = larger(least, std::abs(value.value) - value.error);
            most = larger(most, std::abs(value.value) + value.error);
          }
          const int actual = found_[offset_of(batch, row, block)];
          others[offset_of(batch, row, block)] = 0xff;
          const int lowest = block < blocks_ ? bits_for(least * (1 - 0x1p-22)) : 0;  // the device computes in f32
          const int highest = block < blocks_ ? bits_for(most * (1 + 0x1p-22)) : 0;
          if (actual >= lowest && actual <= highest) continue;
          ++verdict.wrong;
          verdict.worst = "the scale factor of block " + std::to_string(block) + " of row " + std::to_string(row) +
                          " of batch " + std::to_string(batch) + " has the bits " + std::to_string(actual) +
                          ", which should be " + std::to_string(lowest) +
                          (lowest == highest ? "" : " to " + std::to_string(highest));
        }
      }
    }
    const auto touched = std::ranges::find_if(others, [](unsigned char byte) { return byte != 0xff; });
    if (touched == others.end()) return;
    ++verdict.wrong;
    verdict.worst = "the scale factor at offset " + std::to_string(touched - others.begin()) +
                    " belongs to no row of D, and was written";
  }

  /// What an element of D is multiplied by; 1 where D has no scale factors. After `compare()`.
  double factor(int64_t batch, int64_t row, int64_t column) const {
    if (!is_block_scaled(type_)) return 1;
    const uint8_t bits = found_[offset_of(batch, row, column / block_)];
    return type_ == DataType::nvfp4 ? harness::number_of<__nv_fp8_e4m3>(bits) : harness::number_of<__nv_fp8_e8m0>(bits);
  }

 private:
  /// Fills in `padded_row_of_`, and returns how many padded rows there are.
  int64_t number_rows(std::vector<int64_t> groups) {
    if (groups.empty()) groups.push_back(places_.rows);
    int64_t padded_rows = 0;
    for (int64_t batch = 0; batch < places_.batches; ++batch) {
      for (const int64_t rows : groups) {
        for (int64_t row = 0; row < rows; ++row) padded_row_of_.push_back(padded_rows + row);
        padded_rows += rounded_up(rows, 128);
      }
    }
    return padded_rows;
  }

  size_t offset_of(int64_t batch, int64_t row, int64_t block) const {
    return scale_factor_offset(static_cast<uint32_t>(padded_row_of_[batch * places_.rows + row]),
                               static_cast<uint32_t>(block), static_cast<uint32_t>(padded_blocks_));
  }

  /// The scale factor of a block with this largest magnitude: of nvfp4 the nearest to a sixth of it; else the smallest
  /// power of two by which it does not exceed the largest element, or NaN where it is not finite.
  int bits_for(double largest) const {
    if (type_ == DataType::nvfp4) return __nv_fp8_e4m3(static_cast<float>(largest / 6)).__x;
    if (!std::isfinite(largest)) return 0xff;
    int bits = 0;
    while (largest > std::ldexp(type_ == DataType::mxfp8 ? 448 : 6, bits - 127)) ++bits;
    return bits;
  }

  DataType type_;
  MatrixPlaces places_;
  int64_t block_, blocks_, padded_blocks_;
  std::vector<int64_t> padded_row_of_;  // for each row of each matrix
  DeviceBuffer<unsigned char> memory_;
  std::vector<unsigned char> found_;
};

/// Elements and scales of a matrix, for one of the operands that have scales.
struct HostScales {
  std::vector<double> elements, scales;  // row-major
  int block;

  /// @param values  rows x k: each the product of an element and its scale.
  /// @param bytes   the scales, as a kernel reads them.
  HostScales(DataType type, OperandName name, std::span<const double> values, std::span<const unsigned char> bytes,
             int64_t rows, int64_t k)
      : elements(values.begin(), values.end()), scales(values.size()), block(static_cast<int>(scale_block_of(type))) {
    const int64_t blocks = (k + block - 1) / block, pitch = name == OperandName::a ? rounded_up(rows, 4) : blocks;
    for (int64_t i = 0; i < std::ssize(scales); ++i) {
      const int64_t row = i / k, of_k = i % k / block;
      if (type == DataType::fp8_blockwise) {
        float scale = 0;
        const int64_t at = name == OperandName::a ? of_k * pitch + row : row / block * pitch + of_k;
        std::memcpy(&scale, &bytes[at * static_cast<int64_t>(sizeof scale)], sizeof scale);
        scales[i] = scale;
      } else {
        const uint8_t bits = bytes[scale_factor_offset(static_cast<uint32_t>(row), static_cast<uint32_t>(of_k),
                                                       static_cast<uint32_t>(rounded_up(blocks, 4)))];
        scales[i] =
            type == DataType::nvfp4 ? harness::number_of<__nv_fp8_e4m3>(bits) : harness::number_of<__nv_fp8_e8m0>(bits);
      }
      if (scales[i] != 0) elements[i] /= scales[i];
    }
  }

  harness::ScaledValues view() const { return {elements, scales, block}; }
};

/// A matrix in device memory between poisoned guards, and its comparison with the reference.
class CheckedMatrix {
 public:
  /// @param pieces  TMA may write whole pieces of 16 bytes, also at the ends of rows.
  CheckedMatrix(const char* name, DataType type, const MatrixPlaces& places, bool pieces)
      : name_(name),
        type_(type),
        places_(places),
        pieces_(pieces),
        memory_((static_cast<size_t>(places.span()) * bits_of(type) + 7) / 8 + 2 * kGuard, name) {
    memory_.poison();
  }

  void* address() { return memory_.data() + kGuard; }

  /// Elements of rows of a batch, times `factor(batch, row, column)`, as harness::WrongProduct takes them.
  template <typename Factor>
  std::vector<double> values(int64_t batch, int64_t first_row, int64_t rows, const Factor& factor) const {
    const std::vector<unsigned char> bytes = memory_.to_host();
    std::vector<double> result;
    for (int64_t row = first_row; row < first_row + rows; ++row) {
      for (int64_t column = 0; column < places_.columns; ++column) {
        const int64_t index = places_(batch, row, column);
        const double value = value_at(type_, &bytes[kGuard], index) * factor(batch, row, column);
        const bool written = !std::isnan(value) || std::any_of(&bytes[kGuard + index * bits_of(type_) / 8],
                                                               &bytes[kGuard + (index + 1) * bits_of(type_) / 8],
                                                               [](unsigned char byte) { return byte != 0xff; });
        result.push_back(std::isnan(value) ? std::copysign(NAN, written ? 1.0 : -1.0) : value);
      }
    }
    return result;
  }

  /// Compares all elements, times `factor(batch, row, column)`, with `expected(batch, row, column)`, a Bounded, in the
  /// order of rows, and that nothing else was written.
  template <typename Expected, typename Factor>
  void compare(const Expected& expected, const Factor& factor, GemmVerdict& verdict) const {
    std::vector<unsigned char> bytes = memory_.to_host();
    unsigned char* const first = &bytes[kGuard];
    std::vector<Bounded> all;
    double squares = 0;
    for (int64_t batch = 0; batch < places_.batches; ++batch) {
      for (int64_t row = 0; row < places_.rows; ++row) {
        for (int64_t column = 0; column < places_.columns; ++column) {
          all.push_back(stored(expected(batch, row, column), type_, factor(batch, row, column)));
          if (std::isfinite(all.back().value)) squares += all.back().value * all.back().value;
        }
      }
    }
    const double typical = std::sqrt(squares / static_cast<double>(all.size()));
    double worst_excess = 1;
    for (int64_t i = 0; i < std::ssize(all); ++i) {
      const int64_t column = i % places_.columns, row = i / places_.columns % places_.rows,
                    batch = i / places_.columns / places_.rows;
      if (all[i].error == kUntouched) continue;
      const int64_t index = places_(batch, row, column);
      const double actual = value_at(type_, first, index) * factor(batch, row, column);
      const double difference = difference_of(actual, all[i]);
      const double excess = difference == 0 ? 0 : difference / all[i].error;
      if (excess > 1) ++verdict.wrong;
      if (excess > worst_excess) {
        worst_excess = excess;
        char text[160];
        std::snprintf(text, sizeof text, "%s[%lld][%lld] of batch %lld = %g, which should be %g", name_,
                      static_cast<long long>(row), static_cast<long long>(column), static_cast<long long>(batch),
                      actual, all[i].value);
        verdict.worst = text;
      }
      const double scale = std::max(std::abs(all[i].value), typical);
      if (scale > 0) verdict.max_relative_error = std::max(verdict.max_relative_error, difference / scale);
      // What is left must be poison.
      const bool is_last = pieces_ && column == places_.columns - 1;
      const int64_t row_start = index - column, bits = bits_of(type_);
      const int64_t end = is_last ? rounded_up((column + 1) * bits, 128) : (column + 1) * bits;
      poison_bits(bytes, index * bits, row_start * bits + end);
    }
    verdict.elements += all.size();
    const auto touched = std::ranges::find_if(bytes, [](unsigned char byte) { return byte != 0xff; });
    if (touched == bytes.end()) return;
    ++verdict.wrong;
    verdict.worst = "the byte at offset " + std::to_string(touched - bytes.begin() - static_cast<ptrdiff_t>(kGuard)) +
                    " from " + name_ + " belongs to no element, and was written";
  }

 private:
  /// Fills bits of the matrix with ones, counted from its first.
  static void poison_bits(std::vector<unsigned char>& bytes, int64_t begin, int64_t end) {
    end = std::min<int64_t>(end, (std::ssize(bytes) - static_cast<int64_t>(kGuard)) * 8);
    for (int64_t bit = begin; bit < end; bit += 4)
      bytes[kGuard + bit / 8] |= static_cast<unsigned char>(0xf << bit % 8);
  }

  static constexpr size_t kGuard = 256;  // bytes before and after, which must keep their poison
  const char* name_;
  DataType type_;
  MatrixPlaces places_;
  bool pieces_;
  DeviceBuffer<unsigned char> memory_;
};

}  // namespace

GemmProblem with_strides(GemmProblem problem) {
  auto& [m, n, k, batches, a, b, d, fusion, c, second, groups] = problem;
  pad_strides(a, m, k);
  pad_strides(b, n, k);
  const int64_t columns = fusion.activation == GemmActivation::gated_silu ? n / 2 : n;
  const bool is_padded = fusion.second_output || is_block_scaled(d.type);
  if (d.pitch == 0) d.pitch = is_padded ? rounded_up(columns, 128 / bits_of(d.type)) : columns;
  if (d.batch_stride == 0) d.batch_stride = m * d.pitch;
  for (GemmCompanion* matrix : {&c, &second}) {
    matrix->type = matrix->type.value_or(companion_of(d.type));
    if (matrix->pitch == 0) matrix->pitch = rounded_up(n, 128 / bits_of(*matrix->type));
    matrix->batch_stride = m * matrix->pitch;
  }
  return problem;
}

DataType usual_result(DataType operand) {
  if (operand == DataType::tf32) return DataType::f32;
  return operand == DataType::f16 ? DataType::f16 : DataType::bf16;
}

std::string describe(const GemmProblem& problem) {
  const GemmOperand &a = problem.a, &b = problem.b;
  std::string text = std::to_string(problem.m) + "x" + std::to_string(problem.n) + "x" + std::to_string(problem.k);
  if (problem.batches > 1) text += ", " + std::to_string(problem.batches) + " times,";
  if (problem.groups.is_contiguous()) text += " in " + std::to_string(problem.groups.rows.size()) + " groups,";
  if (problem.groups.masked > 0) text += " in " + std::to_string(problem.groups.masked) + " masked groups,";
  text += std::string(" ") + name_of(a.type);
  if (a.type != b.type) text += std::string(" x ") + name_of(b.type);
  if (problem.d.type != usual_result(a.type)) text += std::string(" -> ") + name_of(problem.d.type);
  return text;
}

std::string command_of(const GemmCase& run) {
  const GemmProblem problem = with_strides(run.problem);
  const GemmRequest& request = run.request;
  const GemmFusion& fusion = problem.fusion;
  std::string text = "./stagecraft gemm --type ";
  text += name_of(problem.a.type);
  if (problem.a.type != problem.b.type) text += std::string("x") + name_of(problem.b.type);
  text += std::string(" --c-type ") + name_of(problem.d.type) + " --layout ";
  text += problem.a.major == Major::k ? "t" : "n";
  text += problem.b.major == Major::k ? "n" : "t";
  const auto add = [&](const char* name, const auto& value) {
    text += std::string(" ") + name + " " + std::to_string(value);
  };
  const auto add_real = [&](const char* name, float value) {
    char digits[32];
    std::snprintf(digits, sizeof digits, " %s %.9g", name, value);
    text += digits;
  };
  const auto add_if = [&](bool is_used, const char* name) { text += is_used ? std::string(" ") + name : ""; };
  const auto add_pair = [&](const char* name, const std::optional<int>& first, const std::optional<int>& second) {
    if (first && second) text += std::string(" ") + name + " " + std::to_string(*first) + "x" + std::to_string(*second);
  };
  add("--m", problem.m);
  add("--n", problem.n);
  add("--k", problem.k);
  add("--batch", problem.batches);
  add("--lda", problem.a.pitch);
  add("--ldb", problem.b.pitch);
  add("--ldc", problem.d.pitch);
  add_real("--alpha", run.alpha);
  if (fusion.c) {
    add_real("--beta", run.beta);
    text += std::string(" --addend-type ") + name_of(*problem.c.type);
    add("--addend-pitch", problem.c.pitch);
  }
  add_if(fusion.device_factors, "--device-factors");
  if (fusion.scale) add_real("--scale", run.scale);
  add_if(fusion.bias, "--bias");
  if (fusion.bias) text += std::string(" --bias-type ") + name_of(fusion.bias_type);
  add_if(fusion.row_scales, "--row-scales");
  add_if(fusion.column_scales, "--column-scales");
  if (fusion.activation != GemmActivation::none) text += std::string(" --activation ") + name_of(fusion.activation);
  add_if(fusion.second_output, "--aux");
  add_if(fusion.absolute_maximum, "--amax");
  add_pair("--tile", request.tile_m, request.tile_n);
  add_pair("--cluster", request.cluster_m, request.cluster_n);
  if (request.cta_group) add("--cta-group", *request.cta_group);
  if (request.k_group) add("--k-group", *request.k_group);
  if (request.accumulators) add("--accumulators", *request.accumulators);
  if (request.schedule) text += std::string(" --schedule ") + name_of(*request.schedule);
  if (request.split_k > 1) add("--split-k", request.split_k);
  add_if(request.stream_k, "--stream-k");
  if (request.swap) text += *request.swap ? " --swap" : " --no-swap";
  if (problem.groups.exist()) {
    text += " --groups ";
    for (size_t i = 0; i < problem.groups.rows.size(); ++i)
      text += (i == 0 ? "" : ",") + std::to_string(problem.groups.rows[i]);
    for (size_t i = 0; i < run.group_rows.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(run.group_rows[i]);
    add_if(problem.groups.masked > 0, "--masked");
  }
  add("--swizzle", request.raster.width);
  add_if(request.raster.order == RasterOrder::along_n, "--raster n");
  add_if(request.dependent, "--dependent");
  add("--blocks", request.blocks);
  add("--seed", run.seed);
  return text;
}

GemmVerdict verify(const GemmCase& wanted, const GemmPlan& plan) {
  GemmCase run = wanted;
  run.problem = with_strides(run.problem);
  const auto& [m, n, k, wanted_batches, a, b, d, fusion, c, second, groups] = run.problem;
  const int64_t batches = groups.is_contiguous() ? std::ssize(groups.rows)
                          : groups.masked > 0    ? groups.masked
                                                 : wanted_batches;
  const int64_t batches_of_a = groups.is_contiguous() ? 1 : batches;
  require_host_memory(run.problem);
  const bool gated = fusion.activation == GemmActivation::gated_silu;
  const int64_t columns = gated ? n / 2 : n;

  std::vector<float> c_values = random_matrix(*c.type, fusion.c ? batches_of_a * m * n : 0, run.seed + 1);
  if (run.beta == 0) std::ranges::fill(c_values, NAN);  // as in BLAS, it is not read
  const std::vector<float> bias = random_matrix(fusion.bias_type, batches * n, run.seed + 2);
  const std::vector<float> row_scales = random_matrix(DataType::f32, batches_of_a * m, run.seed + 3);
  const std::vector<float> column_scales = random_matrix(DataType::f32, batches * n, run.seed + 4);
  const MatrixPlaces a_places{m, k, batches_of_a, a.major, a.pitch, a.batch_stride};
  const MatrixPlaces b_places{n, k, batches, b.major, b.pitch, b.batch_stride};
  const MatrixPlaces c_places{m, n, batches_of_a, Major::k, c.pitch, c.batch_stride};
  const HostOperand host_a = random_operand(OperandName::a, a.type, a_places, run.seed, groups.rows);
  const HostOperand host_b = random_operand(OperandName::b, b.type, b_places, ~run.seed);
  const auto at_least_one = [](std::vector<unsigned char> bytes) {
    if (bytes.empty()) bytes.resize(16);
    return bytes;
  };
  const DeviceBuffer<unsigned char> device_a(host_a.bytes, "A"), device_b(host_b.bytes, "B"),
      device_sfa(at_least_one(host_a.scale_factors), "A's scale factors"),
      device_sfb(at_least_one(host_b.scale_factors), "B's scale factors");
  const DeviceBuffer<unsigned char> device_c(
      fusion.c ? bytes_of(*c.type, c_places, c_values) : std::vector<unsigned char>(16), "C");
  const DeviceBuffer<unsigned char> device_bias(
      bytes_of(fusion.bias_type, {.rows = 1, .columns = batches * n, .pitch = batches * n}, bias), "the bias");
  const DeviceBuffer<float> factors(std::vector<float>{run.alpha, run.beta, run.scale, kAScale, kBScale},
                                    "the factors");
  // Those on the host are wrong then.
  const auto factor = [&](float value) { return fusion.device_factors ? NAN : value; };
  const auto device_factor = [&](int i) { return fusion.device_factors ? factors.data() + i : nullptr; };
  const DeviceBuffer<float> device_row_scales(row_scales, "the scales of the rows"),
      device_column_scales(column_scales, "the scales of the columns"),
      maximum(std::vector<float>{0}, "the absolute maximum");
  const DeviceBuffer<int> group_rows(run.group_rows.empty() ? std::vector<int>(1) : run.group_rows,
                                     "the rows of the groups");
  const MatrixPlaces d_places{m, columns, batches_of_a, Major::k, d.pitch, d.batch_stride};
  CheckedMatrix result("D", d.type, d_places, /*pieces=*/fusion.second_output && copies_second_output(plan.config()));
  CheckedScaleFactors d_scale_factors(d.type, d_places, groups.rows);
  CheckedMatrix second_result("the second output", *second.type,
                              {m, n, batches_of_a, Major::k, second.pitch, second.batch_stride},
                              /*pieces=*/copies_second_output(plan.config()));
  DeviceBuffer<unsigned char> workspace(std::max<size_t>(plan.workspace_bytes(), 16), "the workspace");
  workspace.poison();

  const auto start = std::chrono::steady_clock::now();
  const auto error = plan.run({.a = device_a.data(),
                               .b = device_b.data(),
                               .d = result.address(),
                               .a_scale_factors = device_sfa.data(),
                               .b_scale_factors = device_sfb.data(),
                               .d_scale_factors = d_scale_factors.address(),
                               .c = device_c.data(),
                               .second = second_result.address(),
                               .bias = device_bias.data(),
                               .row_scales = device_row_scales.data(),
                               .column_scales = device_column_scales.data(),
                               .absolute_maximum = maximum.data(),
                               .group_rows = group_rows.data(),
                               .alpha = factor(run.alpha),
                               .beta = factor(run.beta),
                               .scale = factor(run.scale),
                               .device_alpha = device_factor(0),
                               .device_beta = device_factor(1),
                               .device_scale = device_factor(2),
                               .a_scale = device_factor(3),
                               .b_scale = device_factor(4)},
                              workspace.data(), plan.workspace_bytes());
  if (error) throw std::invalid_argument(error->message);
  harness::check(cudaDeviceSynchronize(), "finish the kernel");
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;

  // The sums in the order of D: a group takes its own rows of A, and of the next matrix of B.
  std::vector<double> sums;
  std::vector<int64_t> group_of_row;  // of contiguous groups
  int64_t first_row = 0;
  for (int64_t batch = 0; batch < batches; ++batch) {
    const int64_t rows = groups.is_contiguous() ? groups.rows[batch] : m;
    const std::span all_of_a(host_a.values), all_of_b(host_b.values);
    const std::vector<double> product = harness::multiply_by_transposed(
        all_of_a.subspan(first_row * k, rows * k), all_of_b.subspan(batch * n * k, n * k), rows, n, k);
    sums.insert(sums.end(), product.begin(), product.end());
    first_row += rows;
    group_of_row.resize(first_row, batch);
  }
  const ReferenceEpilogue epilogue(run, row_scales, column_scales, bias, c_values);
  const auto before_activation = [&](int64_t batch, int64_t row, int64_t column) {
    if (groups.masked > 0 && row >= run.group_rows[batch]) return Bounded{.value = 0, .error = kUntouched};
    const int64_t product = groups.is_contiguous() ? group_of_row[row] : batch;
    return epilogue.before_activation(sums[(batch * m + row) * n + column], batch, product, row, column);
  };
  Bounded largest;
  const auto expected = [&](int64_t batch, int64_t row, int64_t column) {
    if (groups.masked > 0 && row >= run.group_rows[batch]) return Bounded{.value = 0, .error = kUntouched};
    const Bounded gate = gated ? before_activation(batch, row, 2 * column) : Bounded{};
    const Bounded x = before_activation(batch, row, gated ? 2 * column + 1 : column);
    const Bounded y = epilogue.activated(x, gate);
    largest = {larger(largest.value, std::abs(y.value)), std::max(largest.error, y.error)};
    return epilogue.scaled(y);
  };

  GemmVerdict verdict{.seconds = elapsed.count()};
  d_scale_factors.compare(expected, verdict);
  result.compare(
      expected, [&](int64_t batch, int64_t row, int64_t column) { return d_scale_factors.factor(batch, row, column); },
      verdict);
  if (fusion.second_output) {
    second_result.compare(
        before_activation, [](int64_t, int64_t, int64_t) { return 1.0; }, verdict);
  }
  if (fusion.absolute_maximum) {
    const double actual = maximum.to_host()[0];
    const Bounded expected_maximum = in_f32(largest);
    if (difference_of(actual, expected_maximum) > expected_maximum.error) {
      ++verdict.wrong;
      char text[100];
      std::snprintf(text, sizeof text, "the absolute maximum = %g, which should be %g", actual, expected_maximum.value);
      verdict.worst = text;
    }
  }
  if (verdict.wrong > 0 && !is_block_scaled(d.type)) {
    const GemmConfig& config = plan.config();
    const int bits = std::max(bits_of(a.type), bits_of(b.type));
    // Each product for itself, until one says more.
    for (int64_t batch = 0, row_of_a = 0; batch < batches && verdict.mistake.empty(); ++batch) {
      const int64_t rows = groups.is_contiguous() ? groups.rows[batch] : groups.masked > 0 ? run.group_rows[batch] : m;
      const int64_t batch_of_a = groups.is_contiguous() ? 0 : batch, first = groups.is_contiguous() ? row_of_a : 0;
      const int64_t from = batch_of_a * m + first;  // the first of its rows, of all
      row_of_a += rows;
      if (rows == 0) continue;
      const auto bounded = [&](const harness::Guess& sum, int row, int column) {
        const auto before = [&](int of_n) {
          return epilogue.before_activation(sum(row, of_n), batch_of_a, batch, first + row, of_n);
        };
        return stored(epilogue.scaled(epilogue.activated(before(gated ? 2 * column + 1 : column),
                                                         gated ? before(2 * column) : Bounded{})),
                      d.type, 1);
      };
      const harness::Guess right = [&](int row, int column) { return sums[(from + row) * n + column]; };
      const std::vector<double> got = result.values(batch_of_a, first, rows, [](auto...) { return 1.0; });
      const std::span<const double> all_of_a(host_a.values), all_of_b(host_b.values), all_sums(sums);
      const auto of_a = all_of_a.subspan(from * k, rows * k), of_b = all_of_b.subspan(batch * n * k, n * k);
      std::optional<HostScales> scaled_a, scaled_b;
      std::optional<harness::ScaledValues> view_of_a, view_of_b;
      if (!host_a.scale_factors.empty() && !groups.exist()) {
        const auto part = [&](const HostOperand& operand) {
          const size_t bytes = operand.scale_factors.size() / batches;
          return std::span(operand.scale_factors).subspan(batch * bytes, bytes);
        };
        view_of_a = scaled_a.emplace(a.type, OperandName::a, of_a, part(host_a), rows, k).view();
        view_of_b = scaled_b.emplace(b.type, OperandName::b, of_b, part(host_b), n, k).view();
      }
      const bool swapped = config.transposes_d;
      const std::string text = harness::explain_product(
          {.shape = {.m = static_cast<int>(rows),
                     .n = static_cast<int>(n),
                     .k = static_cast<int>(k),
                     .tile_m = swapped ? config.tile_n : config.tile_m,
                     .tile_n = swapped ? config.tile_m : config.tile_n,
                     .tile_k = 1024 / bits,
                     .in_pairs = config.cta_group == 2 && !swapped,
                     .mma_k = 256 / bits,
                     .k_group = config.k_group,
                     .a_along_k = a.major == Major::k,
                     .b_along_k = b.major == Major::k,
                     .result = 'D'},
           .a = of_a,
           .b = of_b,
           .sums = all_sums.subspan(from * n, rows * n),
           .got = got,
           .allowed =
               [&](double value, int row, int column) {
                 const Bounded exact = bounded(right, row, column);
                 // A larger number is a larger sum's, whose error is larger.
                 return exact.error * std::clamp(std::abs(value) / std::max(std::abs(exact.value), 1e-30), 1.0, 8.0);
               },
           .of_sums = [&](const harness::Guess& sum, int row, int column) { return bounded(sum, row, column).value; },
           .output_bits = d.type == DataType::f32    ? 24
                          : d.type == DataType::f16  ? 11
                          : d.type == DataType::bf16 ? 8
                                                     : 4,
           .scaled_a = view_of_a ? &*view_of_a : nullptr,
           .scaled_b = view_of_b ? &*view_of_b : nullptr});
      if (text.empty()) continue;
      verdict.mistake = (batches > 1 ? "in batch " + std::to_string(batch) + ", " : "") + text.substr(2) + "\n";
    }
  }
  return verdict;
}

}  // namespace stagecraft
