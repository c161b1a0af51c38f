// The stand-in for cuBLAS (common/emulator/cublas), used like programs that compare with it.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "device_arrays.hpp"

namespace {

class Cublas : public DeviceArrays {
 protected:
  void SetUp() override { ASSERT_EQ(cublasCreate(&handle_), CUBLAS_STATUS_SUCCESS); }
  void TearDown() override {
    EXPECT_EQ(cublasDestroy(handle_), CUBLAS_STATUS_SUCCESS);
    DeviceArrays::TearDown();
  }

  cublasHandle_t handle_ = nullptr;
};

/// Element (row, column) of op(matrix).
template <typename Element>
double at(const std::vector<Element>& matrix, cublasOperation_t op, int leading, int row, int column) {
  const int index = op == CUBLAS_OP_N ? column * leading + row : row * leading + column;
  return static_cast<double>(static_cast<float>(matrix[static_cast<size_t>(index)]));
}

constexpr int kM = 70, kN = 37, kK = 300, kLeading = 310;  // more than one block of the product's loops along K

TEST_F(Cublas, MultipliesTransposedAndPlainMatrices) {
  const auto a = integers<float>(kLeading * kLeading), b = integers<float>(kLeading * kLeading);
  const auto before = integers<float>(kLeading * kN);
  const float alpha = 2, beta = -3;
  for (const cublasOperation_t op_a : {CUBLAS_OP_N, CUBLAS_OP_T}) {
    for (const cublasOperation_t op_b : {CUBLAS_OP_N, CUBLAS_OP_T}) {
      float* const c = upload(before);
      ASSERT_EQ(cublasSgemm(handle_, op_a, op_b, kM, kN, kK, &alpha, upload(a), kLeading, upload(b), kLeading, &beta, c,
                            kLeading),
                CUBLAS_STATUS_SUCCESS);
      const std::vector<float> result = download(c, before.size());
      for (int column = 0; column < kN; ++column) {
        for (int row = 0; row < kLeading; ++row) {
          const auto index = static_cast<size_t>(column * kLeading + row);
          double sum = 0;
          for (int k = 0; k < kK; ++k) sum += at(a, op_a, kLeading, row, k) * at(b, op_b, kLeading, k, column);
          const double expected = row < kM ? 2 * sum - 3 * double{before[index]} : double{before[index]};
          ASSERT_EQ(result[index], expected) << row << ", " << column;
        }
      }
    }
  }
}

template <typename Element>
void expect_product(const std::vector<Element>& a, const std::vector<Element>& b, const std::vector<float>& c, int m,
                    int n, int k) {
  for (int column = 0; column < n; ++column) {
    for (int row = 0; row < m; ++row) {
      double sum = 0;
      for (int i = 0; i < k; ++i) sum += at(a, CUBLAS_OP_T, k, row, i) * at(b, CUBLAS_OP_N, k, i, column);
      ASSERT_EQ(c[static_cast<size_t>(column * m + row)], sum) << row << ", " << column;
    }
  }
}

TEST_F(Cublas, MultipliesNarrowTypesIntoFloats) {
  constexpr int m = 8, n = 5, k = 16;
  const float one = 1, zero = 0;
  const auto multiply = [&](const auto& a, const auto& b, cudaDataType type) {
    float* const c = upload(std::vector<float>(m * n, NAN));  // beta is 0: C must not be read
    ASSERT_EQ(cublasGemmEx(handle_, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &one, upload(a), type, k, upload(b), type, k,
                           &zero, c, CUDA_R_32F, m, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
              CUBLAS_STATUS_SUCCESS);
    expect_product(a, b, download(c, m * n), m, n, k);
  };
  multiply(integers<__half>(m * k), integers<__half>(k * n), CUDA_R_16F);
  multiply(integers<__nv_bfloat16>(m * k), integers<__nv_bfloat16>(k * n), CUDA_R_16BF);
}

TEST_F(Cublas, RoundsToTheTypeOfC) {
  const __half one(1.0f), zero(0.0f);
  const std::vector<__half> a{__half(2048.0f), __half(1.0f)}, b{__half(1.0f), __half(1.0f)};
  __half* const c = upload(std::vector<__half>(1));
  ASSERT_EQ(cublasHgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 2, &one, upload(a), 1, upload(b), 2, &zero, c, 1),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(static_cast<float>(download(c, 1)[0]), 2048.0f);  // 2049 is halfway, and rounds to the even one
}

TEST_F(Cublas, MultipliesIntegers) {
  const int32_t one = 1, zero = 0;
  const std::vector<int8_t> a(400, 127), b(400, -128);
  int32_t* const c = upload(std::vector<int32_t>(1));
  ASSERT_EQ(cublasGemmEx(handle_, CUBLAS_OP_T, CUBLAS_OP_N, 1, 1, 400, &one, upload(a), CUDA_R_8I, 400, upload(b),
                         CUDA_R_8I, 400, &zero, c, CUDA_R_32I, 1, CUBLAS_COMPUTE_32I, CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(download(c, 1)[0], 400 * 127 * -128);
}

TEST_F(Cublas, MultipliesBatches) {
  constexpr int m = 3, n = 4, k = 5, count = 3;
  const auto a = integers<double>(m * k * count), b = integers<double>(k * n * count);
  const double *const device_a = upload(a), *const device_b = upload(b), one = 1, zero = 0;
  double* const strided = upload(std::vector<double>(m * n * count));
  ASSERT_EQ(cublasDgemmStridedBatched(handle_, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &one, device_a, k, m * k, device_b, k,
                                      k * n, &zero, strided, m, m * n, count),
            CUBLAS_STATUS_SUCCESS);
  double* const batched = upload(std::vector<double>(m * n * count));
  std::vector<const double*> as, bs;
  std::vector<double*> cs;
  for (int i = 0; i < count; ++i) {
    as.push_back(device_a + i * m * k);
    bs.push_back(device_b + i * k * n);
    cs.push_back(batched + i * m * n);
  }
  ASSERT_EQ(cublasDgemmBatched(handle_, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &one, upload(as), k, upload(bs), k, &zero,
                               upload(cs), m, count),
            CUBLAS_STATUS_SUCCESS);
  const std::vector<double> result = download(strided, m * n * count);
  EXPECT_EQ(result, download(batched, m * n * count));
  for (size_t i = 0; i < count; ++i) {
    const auto part = [&](const auto& all, size_t size) {
      return std::vector<float>(all.begin() + static_cast<long>(i * size),
                                all.begin() + static_cast<long>((i + 1) * size));
    };
    expect_product(part(a, m * k), part(b, k * n), part(result, m * n), m, n, k);
  }
}

TEST_F(Cublas, ComputesWithVectors) {
  const float *const x = upload(std::vector<float>{1, -5, 2, 0}), two = 2, zero = 0;
  float* const y = upload(std::vector<float>{10, 20, 30, 40});
  float result = 0;
  EXPECT_EQ(cublasSdot(handle_, 4, x, 1, y, -1, &result), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(result, 1 * 40 - 5 * 30 + 2 * 20);
  EXPECT_EQ(cublasSasum(handle_, 2, x, 2, &result), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(result, 3);
  EXPECT_EQ(cublasSnrm2(handle_, 4, x, 1, &result), CUBLAS_STATUS_SUCCESS);
  EXPECT_FLOAT_EQ(result, std::sqrt(30.0f));
  int index = 0;
  EXPECT_EQ(cublasIsamax(handle_, 4, x, 1, &index), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(index, 2);
  EXPECT_EQ(cublasSaxpy(handle_, 4, &two, x, 1, y, 1), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(download(y, 4), (std::vector<float>{12, 10, 34, 40}));
  float* const product = upload(std::vector<float>(2, NAN));
  EXPECT_EQ(cublasSgemv(handle_, CUBLAS_OP_N, 2, 2, &two, x, 2, y, 1, &zero, product, 1), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(download(product, 2), (std::vector<float>{64, -120}));
  EXPECT_EQ(cublasSgeam(handle_, CUBLAS_OP_T, CUBLAS_OP_N, 2, 2, &two, x, 2, &zero, nullptr, 2, y, 2),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(download(y, 4), (std::vector<float>{2, 4, -10, 0}));
}

TEST_F(Cublas, TakesVectorsOfTypesThatAreArguments) {
  const __half* const x = upload(std::vector<__half>{__half(1.0f), __half(-5.0f), __half(2.0f)});
  const float* const y = upload(std::vector<float>{10, 20, 30});
  double result = 0;
  EXPECT_EQ(cublasDotEx(handle_, 3, x, CUDA_R_16F, 1, y, CUDA_R_32F, -1, &result, CUDA_R_64F, CUDA_R_32F),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(result, 1 * 30 - 5 * 20 + 2 * 10);
  __half norm{};
  EXPECT_EQ(cublasNrm2Ex(handle_, 2, x + 1, CUDA_R_16F, 1, &norm, CUDA_R_16F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(__half2float(norm), __half2float(__half(std::sqrt(29.0f))));
}

TEST_F(Cublas, TakesScalarsFromTheDevice) {
  ASSERT_EQ(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_DEVICE), CUBLAS_STATUS_SUCCESS);
  float* const x = upload(std::vector<float>{1, 2});
  float* const result = upload(std::vector<float>{3});
  EXPECT_EQ(cublasSscal(handle_, 2, result, x, 1), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(download(x, 2), (std::vector<float>{3, 6}));
  EXPECT_EQ(cublasSdot(handle_, 2, x, 1, x, 1, result), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(download(result, 1)[0], 45.0f);
}

TEST_F(Cublas, RefusesWithItsNameAndWhy) {
  const float one = 1;
  testing::internal::CaptureStderr();
  EXPECT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, &one, nullptr, 4, nullptr, 8, &one, nullptr, 8),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "stagecraft: cublasSgemm: lda is 4, but a column has 8 elements [CUBLAS_STATUS_INVALID_VALUE]\n");
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cublasStrsm(handle_, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_UNIT, 1, 1, &one,
                          nullptr, 1, nullptr, 1),
              CUBLAS_STATUS_NOT_SUPPORTED);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "stagecraft: cublasStrsm: the stand-in for cuBLAS, which computes on the host, does not have it "
            "[CUBLAS_STATUS_NOT_SUPPORTED]\n");
}

TEST_F(Cublas, RefusesAStreamThatIsBeingCaptured) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cublasSetStream(handle_, stream), CUBLAS_STATUS_SUCCESS);
  float* const x = upload(std::vector<float>{1});
  const float two = 2;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  testing::internal::CaptureStderr();
  EXPECT_EQ(cublasSscal(handle_, 1, &two, x, 1), CUBLAS_STATUS_NOT_SUPPORTED);
  ASSERT_EQ(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_DEVICE), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasSscal(handle_, 1, x, x, 1), CUBLAS_STATUS_NOT_SUPPORTED);  // and the capture continues
  EXPECT_NE(testing::internal::GetCapturedStderr().find("is being captured"), std::string::npos);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cublasSetStream(handle_, nullptr), CUBLAS_STATUS_SUCCESS);
}

}  // namespace
