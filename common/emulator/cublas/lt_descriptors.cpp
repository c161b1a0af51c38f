#include "emulator/cublas/lt_descriptors.hpp"

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>

#include "emulator/cublas/call.hpp"

namespace stagecraft::emulator::cublas {
namespace {

using Bytes = std::span<std::byte>;

template <typename Member>
Bytes bytes_of(Member& member) {
  return std::as_writable_bytes(std::span(&member, 1));
}

// The place of each attribute; none if it is not supported.
Bytes find(Layout& layout, cublasLtMatrixLayoutAttribute_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE: return bytes_of(layout.type);
    case CUBLASLT_MATRIX_LAYOUT_ORDER: return bytes_of(layout.order);
    case CUBLASLT_MATRIX_LAYOUT_ROWS: return bytes_of(layout.rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS: return bytes_of(layout.columns);
    case CUBLASLT_MATRIX_LAYOUT_LD: return bytes_of(layout.leading);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return bytes_of(layout.batch_count);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return bytes_of(layout.batch_stride);
    case CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET: return bytes_of(layout.plane_offset);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_MODE: return bytes_of(layout.batch_mode);
  }
  return {};
}

Bytes find(Description& description, cublasLtMatmulDescAttributes_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: return bytes_of(description.compute);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE: return bytes_of(description.scale_type);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE: return bytes_of(description.pointer_mode);
    case CUBLASLT_MATMUL_DESC_TRANSA: return bytes_of(description.op_a);
    case CUBLASLT_MATMUL_DESC_TRANSB: return bytes_of(description.op_b);
    case CUBLASLT_MATMUL_DESC_TRANSC: return bytes_of(description.op_c);
    case CUBLASLT_MATMUL_DESC_FILL_MODE: return bytes_of(description.fill);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return bytes_of(description.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return bytes_of(description.bias);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE: return bytes_of(description.bias_stride);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return bytes_of(description.bias_type);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return bytes_of(description.aux);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return bytes_of(description.aux_leading);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE: return bytes_of(description.aux_stride);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE: return bytes_of(description.aux_type);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET: return bytes_of(description.multiprocessors);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER: return bytes_of(description.a.pointer);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER: return bytes_of(description.b.pointer);
    case CUBLASLT_MATMUL_DESC_C_SCALE_POINTER: return bytes_of(description.c.pointer);
    case CUBLASLT_MATMUL_DESC_D_SCALE_POINTER: return bytes_of(description.d.pointer);
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE: return bytes_of(description.a.mode);
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE: return bytes_of(description.b.mode);
    case CUBLASLT_MATMUL_DESC_C_SCALE_MODE: return bytes_of(description.c.mode);
    case CUBLASLT_MATMUL_DESC_D_SCALE_MODE: return bytes_of(description.d.mode);
    case CUBLASLT_MATMUL_DESC_AMAX_D_POINTER: return bytes_of(description.amax_d);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM: return bytes_of(description.fast_accumulation);
    default: return {};
  }
}

Bytes find(Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE: return bytes_of(preference.search_mode);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return bytes_of(preference.workspace);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return bytes_of(preference.reductions);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return bytes_of(preference.alignments[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return bytes_of(preference.alignments[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return bytes_of(preference.alignments[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return bytes_of(preference.alignments[3]);
    case CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT: return bytes_of(preference.waves);
    case CUBLASLT_MATMUL_PREF_IMPL_MASK: return bytes_of(preference.implementations);
  }
  return {};
}

/// The contents of an opaque structure.
template <typename Contents, typename Opaque>
Contents& contents_of(Opaque* opaque) {
  static_assert(sizeof(Contents) <= sizeof(Opaque) && alignof(Contents) <= alignof(Opaque));
  require(opaque != nullptr, "a descriptor is a null pointer");
  return *std::launder(reinterpret_cast<Contents*>(opaque));
}

template <typename Contents, typename Opaque>
void make_in(Opaque* place, size_t size, const Contents& contents) {
  require(place != nullptr, "the descriptor is a null pointer");
  if (size < sizeof(Contents)) throw Failure(CUBLAS_STATUS_ALLOC_FAILED, "the descriptor is too small");
  new (place) Contents(contents);
}

template <typename Contents, typename Opaque>
void make(Opaque** place, const Contents& contents) {
  require(place != nullptr, "the result is a null pointer");
  auto opaque = std::make_unique<Opaque>();
  make_in(opaque.get(), sizeof(Opaque), contents);
  *place = opaque.release();
}

template <typename Contents, typename Attribute>
Bytes attribute_of(Contents& contents, Attribute attribute) {
  const Bytes bytes = find(contents, attribute);
  if (bytes.empty()) {
    throw Failure(CUBLAS_STATUS_NOT_SUPPORTED, "the stand-in for cuBLASLt has no attribute " +
                                                   std::to_string(attribute) + " of these (cublasLt.h has its name)");
  }
  return bytes;
}

std::string describe(int attribute, size_t bytes) {
  return "attribute " + std::to_string(attribute) + " has " + std::to_string(bytes) + " bytes; ";
}

template <typename Contents, typename Attribute>
void set(Contents& contents, Attribute attribute, const void* from, size_t size) {
  const Bytes bytes = attribute_of(contents, attribute);
  require(from != nullptr && size == bytes.size(),
          describe(attribute, bytes.size()) + "given are " + std::to_string(size));
  std::memcpy(bytes.data(), from, size);
}

template <typename Contents, typename Attribute>
void get(Contents& contents, Attribute attribute, void* to, size_t size, size_t* written) {
  const Bytes bytes = attribute_of(contents, attribute);
  if (written != nullptr) *written = bytes.size();
  if (size == 0 && written != nullptr) return;  // asked for the size only
  require(to != nullptr && size >= bytes.size(),
          describe(attribute, bytes.size()) + "there is room for " + std::to_string(size));
  std::memcpy(to, bytes.data(), bytes.size());
}

}  // namespace

const Layout& layout_of(const cublasLtMatrixLayoutOpaque_t* layout) {
  return contents_of<Layout>(const_cast<cublasLtMatrixLayoutOpaque_t*>(layout));
}
const Description& description_of(const cublasLtMatmulDescOpaque_t* description) {
  return contents_of<Description>(const_cast<cublasLtMatmulDescOpaque_t*>(description));
}

}  // namespace stagecraft::emulator::cublas

using namespace stagecraft::emulator::cublas;

// Functions for all kinds of descriptors.
#define STAGECRAFT_DESCRIPTOR(Name, Handle, Contents, Attribute)                                                       \
  cublasStatus_t cublasLt##Name##Destroy(Handle descriptor) {                                                          \
    delete descriptor;                                                                                                 \
    return CUBLAS_STATUS_SUCCESS;                                                                                      \
  }                                                                                                                    \
  cublasStatus_t cublasLt##Name##SetAttribute(Handle descriptor, Attribute attribute, const void* from, size_t size) { \
    return run("cublasLt" #Name "SetAttribute",                                                                        \
               [&] { set(contents_of<Contents>(descriptor), attribute, from, size); });                                \
  }                                                                                                                    \
  cublasStatus_t cublasLt##Name##GetAttribute(Handle descriptor, Attribute attribute, void* to, size_t size,           \
                                              size_t* written) {                                                       \
    return run("cublasLt" #Name "GetAttribute",                                                                        \
               [&] { get(contents_of<Contents>(descriptor), attribute, to, size, written); });                         \
  }

extern "C" {

STAGECRAFT_DESCRIPTOR(MatrixLayout, cublasLtMatrixLayout_t, Layout, cublasLtMatrixLayoutAttribute_t)
STAGECRAFT_DESCRIPTOR(MatmulDesc, cublasLtMatmulDesc_t, Description, cublasLtMatmulDescAttributes_t)
STAGECRAFT_DESCRIPTOR(MatmulPreference, cublasLtMatmulPreference_t, Preference, cublasLtMatmulPreferenceAttributes_t)

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  return run("cublasLtMatrixLayoutCreate", [&] { make(layout, Layout{type, rows, columns, leading}); });
}
cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t size, cudaDataType type,
                                                 uint64_t rows, uint64_t columns, int64_t leading) {
  return run("cublasLtMatrixLayoutInit", [&] { make_in(layout, size, Layout{type, rows, columns, leading}); });
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t compute,
                                        cudaDataType scale) {
  return run("cublasLtMatmulDescCreate", [&] { make(description, Description{compute, scale}); });
}
cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t description, size_t size,
                                               cublasComputeType_t compute, cudaDataType scale) {
  return run("cublasLtMatmulDescInit", [&] { make_in(description, size, Description{compute, scale}); });
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return run("cublasLtMatmulPreferenceCreate", [&] { make(preference, Preference{}); });
}
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, size_t size) {
  return run("cublasLtMatmulPreferenceInit", [&] { make_in(preference, size, Preference{}); });
}

}  // extern "C"
