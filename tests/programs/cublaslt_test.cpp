// The stand-in for cuBLASLt (common/emulator/cublas), used as programs do that compare with it.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "device_arrays.hpp"

namespace {

template <typename Element>
constexpr cudaDataType kType = CUDA_R_32F;
template <>
constexpr cudaDataType kType<__half> = CUDA_R_16F;
template <>
constexpr cudaDataType kType<__nv_bfloat16> = CUDA_R_16BF;
template <>
constexpr cudaDataType kType<__nv_fp8_e4m3> = CUDA_R_8F_E4M3;
template <>
constexpr cudaDataType kType<__nv_fp8_e5m2> = CUDA_R_8F_E5M2;

/// A matrix's descriptor, made in place.
class Layout {
 public:
  Layout(cudaDataType type, int rows, int columns, int leading) {
    EXPECT_EQ(
        cublasLtMatrixLayoutInit(&opaque_, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), leading),
        CUBLAS_STATUS_SUCCESS);
  }
  template <typename Value>
  Layout& set(cublasLtMatrixLayoutAttribute_t attribute, const Value& value) {
    EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(&opaque_, attribute, &value, sizeof value), CUBLAS_STATUS_SUCCESS);
    return *this;
  }
  cublasLtMatrixLayout_t get() { return &opaque_; }

 private:
  cublasLtMatrixLayoutOpaque_t opaque_;
};

class CublasLt : public DeviceArrays {
 protected:
  void SetUp() override {
    ASSERT_EQ(cublasLtCreate(&handle_), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasLtMatmulDescCreate(&how_, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cublasLtMatmulDescDestroy(how_), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtDestroy(handle_), CUBLAS_STATUS_SUCCESS);
    DeviceArrays::TearDown();
  }

  template <typename Value>
  cublasStatus_t set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    return cublasLtMatmulDescSetAttribute(how_, attribute, &value, sizeof value);
  }

  /// Asks for an algorithm and multiplies with it.
  cublasStatus_t multiply(const void* a, Layout& layout_a, const void* b, Layout& layout_b, const void* c,
                          Layout& layout_c, void* d, Layout& layout_d, float alpha = 1, float beta = 0) {
    cublasLtMatmulPreference_t preference = nullptr;
    EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
    const uint64_t workspace = 32 << 20;
    EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                                   sizeof workspace),
              CUBLAS_STATUS_SUCCESS);
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_, how_, layout_a.get(), layout_b.get(), layout_c.get(), layout_d.get(), preference, 1, &found, &count);
    EXPECT_EQ(cublasLtMatmulPreferenceDestroy(preference), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(count, status == CUBLAS_STATUS_SUCCESS ? 1 : 0);
    if (count == 0) return status;
    EXPECT_EQ(found.state, CUBLAS_STATUS_SUCCESS);
    return cublasLtMatmul(handle_, how_, &alpha, a, layout_a.get(), b, layout_b.get(), &beta, c, layout_c.get(), d,
                          layout_d.get(), &found.algo, nullptr, 0, nullptr);
  }

  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t how_ = nullptr;
};

/// Element (row, column) of op(matrix), as it is in memory.
template <typename Element>
float at(const std::vector<Element>& matrix, bool by_rows, bool transposed, int leading, int row, int column) {
  const bool row_outside = by_rows != transposed;
  const int index = row_outside ? row * leading + column : column * leading + row;
  return static_cast<float>(matrix[static_cast<size_t>(index)]);
}

TEST_F(CublasLt, MultipliesByRowsAndByColumnsTransposedAndPlain) {
  constexpr int m = 12, n = 9, k = 20, leading = 24;
  const auto a = integers<__nv_bfloat16>(leading * leading), b = integers<__nv_bfloat16>(leading * leading);
  const auto c = integers<float>(leading * leading);
  const std::vector<float> poison(leading * leading, NAN);
  for (int forms = 0; forms < 64; ++forms) {
    const auto form = [forms](int bit) { return (forms >> bit & 1) != 0; };
    const bool rows_a = form(0), rows_b = form(1), rows_c = form(2), rows_d = form(3), across_a = form(4),
               across_b = form(5);
    const auto order = [](bool by_rows) { return by_rows ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL; };
    Layout layout_a(CUDA_R_16BF, across_a ? k : m, across_a ? m : k, leading);
    Layout layout_b(CUDA_R_16BF, across_b ? n : k, across_b ? k : n, leading);
    Layout layout_c(CUDA_R_32F, m, n, leading), layout_d(CUDA_R_32F, m, n, leading);
    layout_a.set(CUBLASLT_MATRIX_LAYOUT_ORDER, order(rows_a));
    layout_b.set(CUBLASLT_MATRIX_LAYOUT_ORDER, order(rows_b));
    layout_c.set(CUBLASLT_MATRIX_LAYOUT_ORDER, order(rows_c));
    layout_d.set(CUBLASLT_MATRIX_LAYOUT_ORDER, order(rows_d));
    ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_TRANSA, across_a ? CUBLAS_OP_T : CUBLAS_OP_N), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_TRANSB, across_b ? CUBLAS_OP_T : CUBLAS_OP_N), CUBLAS_STATUS_SUCCESS);
    float* const d = upload(poison);
    ASSERT_EQ(multiply(upload(a), layout_a, upload(b), layout_b, upload(c), layout_c, d, layout_d, 2, -3),
              CUBLAS_STATUS_SUCCESS);
    const std::vector<float> result = download(d, poison.size());
    int written = 0;
    for (const float value : result) written += std::isnan(value) ? 0 : 1;
    ASSERT_EQ(written, m * n);
    for (int row = 0; row < m; ++row) {
      for (int column = 0; column < n; ++column) {
        float sum = 0;
        for (int i = 0; i < k; ++i)
          sum += at(a, rows_a, across_a, leading, row, i) * at(b, rows_b, across_b, leading, i, column);
        ASSERT_EQ(at(result, rows_d, false, leading, row, column),
                  2 * sum - 3 * at(c, rows_c, false, leading, row, column))
            << "forms " << forms << ": " << row << ", " << column;
      }
    }
  }
}

constexpr int kM = 8, kN = 5, kK = 16;

/// op(A) is transposed, as cuBLASLt requires for 8-bit floats.
template <typename A, typename B>
std::vector<float> product_of(const std::vector<A>& a, const std::vector<B>& b) {
  std::vector<float> result(kM * kN);
  for (int column = 0; column < kN; ++column) {
    for (int row = 0; row < kM; ++row) {
      for (int i = 0; i < kK; ++i)
        result[static_cast<size_t>(column * kM + row)] +=
            at(a, false, true, kK, row, i) * at(b, false, false, kK, i, column);
    }
  }
  return result;
}

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

TEST_F(CublasLt, AddsABiasAndActivates) {
  const auto a = integers<float>(kM * kK), b = integers<float>(kK * kN), bias = integers<float>(kM);
  std::vector<float> sums = product_of(a, b);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = sums[i] / 16 + bias[i % kM];
  Layout layout_a(CUDA_R_32F, kK, kM, kK), layout_b(CUDA_R_32F, kK, kN, kK), layout_d(CUDA_R_32F, kM, kN, kM);
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, upload(bias)), CUBLAS_STATUS_SUCCESS);
  float* const aux = upload(std::vector<float>(kM * kN, NAN));
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{kM}), CUBLAS_STATUS_SUCCESS);
  const auto result_of = [&](cublasLtEpilogue_t epilogue) {
    EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue), CUBLAS_STATUS_SUCCESS);
    float* const d = upload(std::vector<float>(kM * kN, NAN));
    EXPECT_EQ(multiply(upload(a), layout_a, upload(b), layout_b, nullptr, layout_d, d, layout_d, 1 / 16.0f),
              CUBLAS_STATUS_SUCCESS);
    return download(d, kM * kN);
  };
  EXPECT_EQ(result_of(CUBLASLT_EPILOGUE_BIAS), sums);
  const auto relu = result_of(CUBLASLT_EPILOGUE_RELU_BIAS), with_gelu = result_of(CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
  EXPECT_EQ(download(aux, kM * kN), sums);
  for (size_t i = 0; i < sums.size(); ++i) {
    EXPECT_EQ(relu[i], std::fmax(sums[i], 0.0f));
    EXPECT_NEAR(with_gelu[i], gelu(sums[i]), 1e-6 * (1 + std::abs(sums[i])));
  }
}

TEST_F(CublasLt, TakesGradients) {
  const auto a = integers<float>(kM * kK), b = integers<float>(kK * kN);
  const auto inputs = integers<float>(kM * kN);
  const std::vector<float> sums = product_of(a, b);
  Layout layout_a(CUDA_R_32F, kK, kM, kK), layout_b(CUDA_R_32F, kK, kN, kK), layout_d(CUDA_R_32F, kM, kN, kM);
  float* const bias = upload(std::vector<float>(kM, NAN));
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, upload(inputs)), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{kM}), CUBLAS_STATUS_SUCCESS);
  const auto result_of = [&](cublasLtEpilogue_t epilogue) {
    EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue), CUBLAS_STATUS_SUCCESS);
    float* const d = upload(std::vector<float>(kM * kN, NAN));
    EXPECT_EQ(multiply(upload(a), layout_a, upload(b), layout_b, nullptr, layout_d, d, layout_d),
              CUBLAS_STATUS_SUCCESS);
    return download(d, kM * kN);
  };
  const std::vector<float> result = result_of(CUBLASLT_EPILOGUE_DGELU_BGRAD);
  std::vector<double> row_sums(kM);
  for (size_t i = 0; i < sums.size(); ++i) {
    const double step = 1e-6, x = inputs[i];
    EXPECT_NEAR(result[i], sums[i] * (gelu(x + step) - gelu(x - step)) / (2 * step), 1e-4 * (1 + std::abs(sums[i])));
    row_sums[i % kM] += result[i];
  }
  std::vector<float> gradient = download(bias, kM);
  for (size_t i = 0; i < kM; ++i) EXPECT_NEAR(gradient[i], row_sums[i], 1e-3);

  EXPECT_EQ(result_of(CUBLASLT_EPILOGUE_BGRADB), sums);
  gradient = download(bias, kN);
  for (int column = 0; column < kN; ++column) {
    float sum = 0;
    for (int i = 0; i < kK; ++i) sum += at(b, false, false, kK, i, column);
    EXPECT_EQ(gradient[static_cast<size_t>(column)], sum) << column;
  }
}

TEST_F(CublasLt, ScalesFloatsOf8Bits) {
  const auto a = integers<__nv_fp8_e4m3>(kM * kK);
  const auto b = integers<__nv_fp8_e5m2>(kK * kN);
  const std::vector<float> sums = product_of(a, b);
  Layout layout_a(CUDA_R_8F_E4M3, kK, kM, kK), layout_b(CUDA_R_8F_E5M2, kK, kN, kK);
  Layout layout_c(CUDA_R_16BF, kM, kN, kM), layout_d(CUDA_R_8F_E4M3, kM, kN, kM);
  float* const largest = upload(std::vector<float>(1, NAN));
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, upload(std::vector<float>{0.5f})), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, upload(std::vector<float>{8.0f})), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, upload(std::vector<float>{2.0f})), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, largest), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1}), CUBLAS_STATUS_SUCCESS);
  auto* const d = upload(std::vector<__nv_fp8_e4m3>(kM * kN));
  ASSERT_EQ(multiply(upload(a), layout_a, upload(b), layout_b, nullptr, layout_c, d, layout_d), CUBLAS_STATUS_SUCCESS);
  const auto result = download(d, kM * kN);
  float expected_largest = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    EXPECT_EQ(static_cast<float>(result[i]), static_cast<float>(__nv_fp8_e4m3(8 * sums[i]))) << i;
    expected_largest = std::fmax(expected_largest, std::abs(4 * sums[i]));
  }
  EXPECT_EQ(download(largest, 1)[0], expected_largest);
}

TEST_F(CublasLt, MultipliesBatches) {
  constexpr int count = 3;
  const auto a = integers<__half>(kM * kK * count), b = integers<__half>(kK * kN);
  Layout layout_a(CUDA_R_16F, kK, kM, kK), layout_b(CUDA_R_16F, kK, kN, kK), layout_d(CUDA_R_16F, kM, kN, kM);
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T), CUBLAS_STATUS_SUCCESS);
  layout_a.set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count)
      .set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, int64_t{kM * kK});
  layout_b.set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count);  // the same one for all
  layout_d.set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count)
      .set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, int64_t{kM * kN});
  auto* const d = upload(std::vector<__half>(kM * kN * count));
  ASSERT_EQ(multiply(upload(a), layout_a, upload(b), layout_b, nullptr, layout_d, d, layout_d), CUBLAS_STATUS_SUCCESS);
  const auto result = download(d, kM * kN * count);
  for (int i = 0; i < count; ++i) {
    const std::vector<__half> part(a.begin() + i * kM * kK, a.begin() + (i + 1) * kM * kK);
    const std::vector<float> sums = product_of(part, b);
    for (size_t j = 0; j < sums.size(); ++j) {
      ASSERT_EQ(static_cast<float>(result[static_cast<size_t>(i) * kM * kN + j]), sums[j]) << i << ", " << j;
    }
  }
}

TEST_F(CublasLt, TellsAttributes) {
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_C), CUBLAS_STATUS_SUCCESS);
  cublasOperation_t found = CUBLAS_OP_N;
  size_t size = 0;
  EXPECT_EQ(cublasLtMatmulDescGetAttribute(how_, CUBLASLT_MATMUL_DESC_TRANSB, nullptr, 0, &size),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(size, sizeof found);
  EXPECT_EQ(cublasLtMatmulDescGetAttribute(how_, CUBLASLT_MATMUL_DESC_TRANSB, &found, sizeof found, &size),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(found, CUBLAS_OP_C);
}

TEST_F(CublasLt, RefusesWithItsNameAndWhy) {
  Layout float8(CUDA_R_8F_E4M3, 16, 16, 16), floats(CUDA_R_32F, 16, 16, 16), integers(CUDA_R_32I, 16, 16, 16),
      short_columns(CUDA_R_32F, 16, 16, 8);
  const auto refusal = [&](Layout& a, Layout& d, cublasStatus_t expected) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(multiply(nullptr, a, nullptr, floats, nullptr, d, nullptr, d), expected);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(refusal(short_columns, floats, CUBLAS_STATUS_INVALID_VALUE),
            "stagecraft: cublasLtMatmulAlgoGetHeuristic: the leading dimension of matrix A is 8, but it needs 16 "
            "[CUBLAS_STATUS_INVALID_VALUE]\n");
  EXPECT_NE(refusal(floats, integers, CUBLAS_STATUS_NOT_SUPPORTED).find("has no matrix C of cudaDataType 10"),
            std::string::npos);
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0), CUBLAS_STATUS_SUCCESS);
  EXPECT_NE(refusal(float8, floats, CUBLAS_STATUS_NOT_SUPPORTED).find("scale factors of A other than one"),
            std::string::npos);
  ASSERT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU_AUX), CUBLAS_STATUS_SUCCESS);
  EXPECT_NE(refusal(floats, floats, CUBLAS_STATUS_NOT_SUPPORTED).find("has no epilogue 130"), std::string::npos);

  testing::internal::CaptureStderr();
  EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE, int64_t{1}), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "stagecraft: cublasLtMatmulDescSetAttribute: attribute 7 has 4 bytes; given are 8 "
            "[CUBLAS_STATUS_INVALID_VALUE]\n");
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cublasLtMatrixTransform(handle_, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                      nullptr, nullptr),
              CUBLAS_STATUS_NOT_SUPPORTED);
  }
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "stagecraft: cublasLtMatrixTransform: the stand-in for cuBLAS, which computes on the host, does not have it "
      "[CUBLAS_STATUS_NOT_SUPPORTED]\n");
}

}  // namespace
