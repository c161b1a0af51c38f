// What a GEMM writes, in poisoned device memory, and its comparison with the reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "harness/device_buffer.hpp"
#include "host_matrix.hpp"
#include "reference_epilogue.hpp"
#include "stagecraft/gemm/extents.hpp"

namespace stagecraft {

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
        padded_blocks_(detail::padded_to(4, blocks_)),
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
        padded_rows += detail::padded_to(128, rows);
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
  harness::DeviceBuffer<unsigned char> memory_;
  std::vector<unsigned char> found_;
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
      const int64_t end = is_last ? detail::padded_to(128, (column + 1) * bits) : (column + 1) * bits;
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
  harness::DeviceBuffer<unsigned char> memory_;
};

}  // namespace stagecraft
