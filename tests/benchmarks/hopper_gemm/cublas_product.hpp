// The same product by cuBLAS, to be measured beside ours: the fastest of the algorithms that cublasLt proposes.
#pragma once

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "contenders.hpp"

namespace stagecraft {

/// The functions of libcublasLt that are needed, found at run time: the program starts without the library too.
class CublasLt {
 public:
  /// Throws std::runtime_error when there is no such library.
  CublasLt() : library_(dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL)) {
#ifdef STAGECRAFT_CUBLAS
    if (library_ == nullptr) library_ = dlopen(STAGECRAFT_CUBLAS, RTLD_NOW | RTLD_LOCAL);  // where the build saw it
#endif
    if (library_ == nullptr) throw std::runtime_error(std::string("no cuBLAS: ") + dlerror());
    find(create, "cublasLtCreate");
    find(get_version, "cublasLtGetVersion");
    find(matmul, "cublasLtMatmul");
    find(create_descriptor, "cublasLtMatmulDescCreate");
    find(set_attribute, "cublasLtMatmulDescSetAttribute");
    find(create_layout, "cublasLtMatrixLayoutCreate");
    find(create_preference, "cublasLtMatmulPreferenceCreate");
    find(set_preference, "cublasLtMatmulPreferenceSetAttribute");
    find(heuristic, "cublasLtMatmulAlgoGetHeuristic");
  }

  decltype(&cublasLtCreate) create;
  decltype(&cublasLtGetVersion) get_version;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulDescCreate) create_descriptor;
  decltype(&cublasLtMatmulDescSetAttribute) set_attribute;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;

  /// Throws unless a call succeeded.
  static void check(cublasStatus_t status, const char* doing) {
    if (status != CUBLAS_STATUS_SUCCESS) {
      throw std::runtime_error(std::string("cuBLAS cannot ") + doing + ": status " + std::to_string(status));
    }
  }

 private:
  template <typename Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr) throw std::runtime_error(std::string("this cuBLAS has no ") + name);
  }

  void* library_;
};

/// C = A * B transposed by cublasLt, all row-major, C of bf16, with f32 sums: to cuBLAS, which thinks in columns, the
/// matrix C transposed = B * A transposed. Sums of e4m3 are those of the tensor core alone ("fast accumulation"):
/// cuBLAS can also add them up in f32 now and then, which is slower.
class CublasProduct {
 public:
  static constexpr size_t kWorkspaceBytes = size_t{64} << 20;

  CublasProduct(const CublasLt& cublas, cublasLtHandle_t handle, void* workspace, OperandType operands, int64_t m,
                int64_t n, int64_t k)
      : cublas_(&cublas), handle_(handle), workspace_(workspace) {
    CublasLt::check(cublas.create_descriptor(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describe a product");
    const cublasOperation_t transposed = CUBLAS_OP_T, plain = CUBLAS_OP_N;
    set(CUBLASLT_MATMUL_DESC_TRANSA, transposed);
    set(CUBLASLT_MATMUL_DESC_TRANSB, plain);
    const int8_t fast = 1;
    if (operands == OperandType::e4m3) set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, fast);
    const cudaDataType_t type = operands == OperandType::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_16BF;
    CublasLt::check(cublas.create_layout(&b_, type, k, n, k), "describe B");
    CublasLt::check(cublas.create_layout(&a_, type, k, m, k), "describe A");
    CublasLt::check(cublas.create_layout(&c_, CUDA_R_16BF, n, m, n), "describe C");

    cublasLtMatmulPreference_t preference;
    CublasLt::check(cublas.create_preference(&preference), "make a preference");
    CublasLt::check(cublas.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes,
                                          sizeof kWorkspaceBytes),
                    "set the workspace");
    // Sums that are kept in f32 all the way: no algorithm that adds up parts of K rounded to bf16.
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    CublasLt::check(
        cublas.set_preference(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions),
        "exclude rounded partial sums");
    algorithms_.resize(64);
    int found = 0;
    CublasLt::check(cublas.heuristic(handle, operation_, b_, a_, c_, c_, preference,
                                     static_cast<int>(algorithms_.size()), algorithms_.data(), &found),
                    "propose algorithms");
    algorithms_.resize(found);
    if (found == 0) throw std::runtime_error("cuBLAS proposes no algorithm");
  }

  int num_algorithms() const { return static_cast<int>(algorithms_.size()); }
  int chosen() const { return chosen_; }
  void choose(int algorithm) { chosen_ = algorithm; }

  void operator()(const void* a, const void* b, __nv_bfloat16* c, cudaStream_t stream) const {
    const float one = 1, zero = 0;
    CublasLt::check(cublas_->matmul(handle_, operation_, &one, b, b_, a, a_, &zero, c, c_, c, c_,
                                    &algorithms_[chosen_].algo, workspace_, kWorkspaceBytes, stream),
                    "multiply");
  }

 private:
  template <typename Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    CublasLt::check(cublas_->set_attribute(operation_, attribute, &value, sizeof value), "set an attribute");
  }

  const CublasLt* cublas_;
  cublasLtHandle_t handle_;
  void* workspace_;
  cublasLtMatmulDesc_t operation_;
  cublasLtMatrixLayout_t a_, b_, c_;
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms_;
  int chosen_ = 0;
};

}  // namespace stagecraft
