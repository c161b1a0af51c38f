// Rows that TMA can address, for matrices whose own it cannot.
#include <cuda_runtime.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "harness/cuda_error.hpp"
#include "stagecraft/hopper_gemm/padded_rows.hpp"

namespace stagecraft {
namespace {

constexpr int kThreads = 128;
constexpr int kBoundary = 128;  // bytes: a line of L2, and what a stage has of a row

int element_bytes(const MatrixProduct& product) { return product.type == OperandType::e4m3 ? 1 : 2; }

/// Copies a row of `columns` words to one of `pitch`, with zeros behind: each block one row of A, or after those of B.
template <typename Word>
__global__ void pad_rows(const Word* a, int64_t a_rows, const Word* b, uint4* to, int columns, int pitch) {
  constexpr int kWords = sizeof(uint4) / sizeof(Word);
  cudaTriggerProgrammaticLaunchCompletion();  // the product may get ready meanwhile
  cudaGridDependencySynchronize();            // the product before still reads these copies
  const int64_t row = blockIdx.x;
  const Word* from = row < a_rows ? a + row * columns : b + (row - a_rows) * columns;
  to += row * (pitch / kWords);
  for (int column = threadIdx.x * kWords; column < pitch; column += kThreads * kWords) {
    __align__(16) Word words[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = column + i < columns ? from[column + i] : Word{0};
    to[column / kWords] = reinterpret_cast<const uint4&>(words);
  }
}

/// The copies that live, by what they are of.
auto& all_copies() {
  static std::map<std::tuple<const void*, const void*, int64_t, int64_t, int64_t>,
                  std::weak_ptr<harness::DeviceBuffer<unsigned char>>>
      all;
  return all;
}

}  // namespace

bool PaddedRows::are_needed(const MatrixProduct& product) { return product.k * element_bytes(product) % 16 != 0; }

PaddedRows::PaddedRows(const MatrixProduct& product) : product_(product) {
  const int bytes = element_bytes(product);
  pitch_ = (product.k * bytes + kBoundary - 1) / kBoundary * kBoundary / bytes;
  static std::mutex one_at_a_time;  // threads may prepare products at the same time
  const std::lock_guard lock(one_at_a_time);
  auto& known = all_copies()[{product.a, product.b, product.m, product.n, product.k * bytes}];
  rows_ = known.lock();
  if (rows_ == nullptr) {
    rows_ = std::make_shared<harness::DeviceBuffer<unsigned char>>((product.m + product.n) * pitch_ * bytes,
                                                                   "padded rows of A and B");
    known = rows_;
  }
}

MatrixProduct PaddedRows::product() const {
  MatrixProduct padded = product_;
  padded.a = rows_->data();
  padded.b = rows_->data() + product_.m * pitch_ * element_bytes(product_);
  padded.k = pitch_;
  return padded;
}

void PaddedRows::copy(cudaStream_t stream) const {
  cudaLaunchAttribute dependent;
  dependent.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  dependent.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(product_.m + product_.n));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  config.attrs = &dependent;
  config.numAttrs = 1;
  const auto launch = [&]<typename Word>(Word) {
    harness::check(cudaLaunchKernelEx(&config, pad_rows<Word>, static_cast<const Word*>(product_.a), product_.m,
                                      static_cast<const Word*>(product_.b), reinterpret_cast<uint4*>(rows_->data()),
                                      static_cast<int>(product_.k), static_cast<int>(pitch_)),
                   "copy A and B to padded rows");
  };
  if (element_bytes(product_) == 1) {
    launch(uint8_t{});
  } else {
    launch(uint16_t{});
  }
}

}  // namespace stagecraft
