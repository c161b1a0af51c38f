// The GEMM as a host program calls it: describe the product, let a plan choose a kernel, run it on a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stagecraft/gemm/activation.hpp"
#include "stagecraft/gemm/config.hpp"
#include "stagecraft/gemm/error.hpp"
#include "stagecraft/tile_work.hpp"

namespace stagecraft {

/// An operand in device memory.
struct GemmOperand {
  DataType type = DataType::bf16;  ///< its elements
  Major major = Major::k;          ///< which index is contiguous: k, or m of A and n of B
  int64_t pitch = 0;               ///< elements from one row (of Major::mn: column) to the next; 0: no gap
  int64_t batch_stride = 0;        ///< elements from one matrix of a batch to the next; 0: no gap
};

/// A matrix that belongs to D in device memory, row-major: C, or the second output.
struct GemmCompanion {
  std::optional<DataType> type{};  ///< its elements, of C f32, bf16 or f16; left out: D's type, or bf16 where that has
                                   ///< 8 bits or fewer, as the second output must have
  int64_t pitch = 0;               ///< elements from one row to the next; 0: no gap
  int64_t batch_stride = 0;        ///< elements from one matrix of a batch to the next; 0: no gap
};

/// D in device memory, row-major.
struct GemmDestination {
  DataType type = DataType::bf16;  ///< its elements: f32, bf16, f16, e4m3, mxfp8, mxfp4 or nvfp4
  int64_t pitch = 0;               ///< elements from one row to the next; 0: no gap
  int64_t batch_stride = 0;        ///< elements from one matrix of a batch to the next; 0: no gap

  /// C of D's type and strides.
  operator GemmCompanion() const { return {type, pitch, batch_stride}; }
};

/// What happens to the sums before they are stored:
/// D = scale * activation(row_scale * column_scale * alpha * A * B transposed + beta * C + bias).
struct GemmFusion {
  bool c = false;                                    ///< adds beta * C; as in BLAS, C is not read where beta is 0
  bool bias = false;                                 ///< adds a bias for each column
  bool row_scales = false;                           ///< multiplies each row by a scale
  bool column_scales = false;                        ///< multiplies each column by a scale
  GemmActivation activation = GemmActivation::none;  ///< with gated_silu D has N / 2 columns
  bool second_output = false;                        ///< stores what goes into the activation, of C's type, n columns
  bool absolute_maximum = false;                     ///< measures what comes out of the activation
  bool scale = false;                                ///< multiplies what is stored by a scale, for e4m3
  DataType bias_type = DataType::f32;                ///< elements of the bias: f32, bf16 or f16
  bool device_factors = false;                       ///< alpha, beta and scales may be in device memory

  /// Whether nothing is asked for.
  bool is_plain() const { return *this == GemmFusion{}; }
  /// The same wishes.
  bool operator==(const GemmFusion&) const = default;
};

/// Products that share a launch, each with rows of its own: the experts of a mixture-of-experts layer. B has a matrix
/// for each, as a batch has, and so have a bias and the scales of columns. Whatever has the rows of D is as D is: the
/// scales of rows, C, and the second output. No row needs padding, and any group may be empty.
struct GemmGroups {
  /// Contiguous: the rows of each group; the rows of A and D are those of one group after the other, together M.
  std::vector<int64_t> rows{};
  /// Masked: how many groups there are, each with a matrix of A and D of M rows, as in a batch, of which only as many
  /// count as `GemmArguments::group_rows` says when the kernel runs. The others are not written.
  int64_t masked = 0;

  /// Whether the rows of one group follow those of the one before.
  bool is_contiguous() const { return !rows.empty(); }
  /// Whether the problem has groups.
  bool exist() const { return is_contiguous() || masked > 0; }
};

/// What to compute: D (m x n) = A (m x k) * B (n x k) transposed, `batches` times, with sums in f32.
struct GemmProblem {
  int64_t m = 1;           ///< rows of A and D
  int64_t n = 1;           ///< rows of B, columns of D
  int64_t k = 1;           ///< columns of A and B
  int64_t batches = 1;     ///< products of this size
  GemmOperand a{};         ///< m x k
  GemmOperand b{};         ///< n x k
  GemmDestination d{};     ///< m x n
  GemmFusion fusion{};     ///< what happens to the sums
  GemmCompanion c{};       ///< m x n, where asked for
  GemmCompanion second{};  ///< the second output, m x n, where asked for
  GemmGroups groups{};     ///< in place of batches

  /// Matrices of A, of C and of D. B has one for each batch or group, of which contiguous ones share those.
  int64_t matrices_of_a() const { return groups.is_contiguous() ? 1 : batches; }
};

/// How tiles are dealt out to blocks.
enum class GemmSchedule : uint8_t {
  one_tile,        ///< a block, or a cluster, for each tile
  persistent,      ///< as many as run at the same time; each goes on to its next tile
  launch_control,  ///< a cluster for each tile is launched, and running ones take over those that have not started
};

/// What the caller decides rather than the plan. Everything may be left out.
struct GemmRequest {
  std::optional<int> tile_m{};             ///< rows of D that a block or a pair sums at a time
  std::optional<int> tile_n{};             ///< columns of it
  std::optional<int> k_group{};            ///< k-tiles that share a barrier
  std::optional<int> accumulators{};       ///< tiles of D in tensor memory
  std::optional<int> cta_group{};          ///< 1, or 2: pairs of blocks
  std::optional<int> cluster_m{};          ///< blocks of a cluster along M
  std::optional<int> cluster_n{};          ///< blocks of a cluster along N
  int fallback_m = 0;                      ///< the same of a smaller cluster, where none of that size fits
  int fallback_n = 0;                      ///< 0 and 0: without one
  std::optional<GemmSchedule> schedule{};  ///< how tiles are dealt out
  int split_k = 1;                         ///< pieces of each tile along K
  bool stream_k = false;                   ///< even shares of K for all clusters; not of groups
  RasterOptions raster{};                  ///< the order of tiles
  int blocks = 0;                          ///< at most, for a persistent schedule; 0: as many as run at once
  /// Computes D transposed as B * A transposed: without groups, and without a gated activation. Left out: where D has
  /// few rows, and such a kernel takes fewer cycles.
  std::optional<bool> swap{};
  bool dependent = false;  ///< programmatic dependent launch
};

/// Where everything is in device memory. What the problem does not ask for is not read.
///
/// Scale factors are one byte each, for each row and each block of 32 (nvfp4: 16) elements along K, padded to multiples
/// of 128 rows and 4 blocks, with zeros beyond K, and one matrix of a batch after the other. They are in atoms of 128
/// rows and 4 blocks, as `scale_factor_offset()` of tile.hpp says. Those of A in contiguous groups are padded for each
/// group, as if it were a matrix of its own: a group of 130 rows has those of 256, and an empty one has none. A itself
/// is not padded. Those of a block-scaled D are as those of A, with columns of D in place of K, so that D can be the
/// next product's A or B; those of rows beyond M, or beyond a group's last, are not written.
///
/// Scales of fp8_blockwise are floats. A has for each block of 128 elements along K a row of M of them, padded to a
/// multiple of 4; B has for each block of 128 rows one for each block of 128 elements along K, without padding. The
/// last blocks may be incomplete. Both have one matrix of a batch after the other.
///
/// With a second output, both results are stored by TMA, which writes whole pieces of 16 bytes. Where a row
/// of n elements is no multiple of 16 bytes, the rest of its last piece is then overwritten in D and in the second
/// output: it must be padding. Without a second output, nothing after the n elements of a row is written; nor with one
/// in groups, with a gated activation, or where A and B are exchanged.
struct GemmArguments {
  const void* a = nullptr;                ///< 16-byte aligned
  const void* b = nullptr;                ///< 16-byte aligned
  void* d = nullptr;                      ///< aligned to its elements, or 16 bytes where they are block-scaled; faster
                                          ///< where it and its strides are aligned to 16 bytes
  const void* a_scale_factors = nullptr;  ///< of A, where its type has them, 16-byte aligned; see above
  const void* b_scale_factors = nullptr;  ///< of B; 16-byte aligned, those of fp8_blockwise to 4
  void* d_scale_factors = nullptr;        ///< of a block-scaled D, which are written; 16-byte aligned
  const void* c = nullptr;                ///< 16-byte aligned, or to its elements where its strides are not; not read
                                          ///< where beta is 0. It may be D itself, if it has D's type and strides: each
                                          ///< element is read before it is written
  void* second = nullptr;                 ///< 16-byte aligned
  const void* bias = nullptr;             ///< n for each batch, or group
  const float* row_scales = nullptr;      ///< one for each row of D, also where it has groups
  const float* column_scales = nullptr;   ///< n for each batch, or group
  float* absolute_maximum = nullptr;      ///< one float, at least 0; the largest of it and of |activation(...)| is left
  const int* group_rows = nullptr;        ///< of masked groups: rows of each; below 0 counts as 0, above m as m
  float alpha = 1;                        ///< multiplies A * B transposed
  float beta = 1;                         ///< multiplies C, where asked for; 0: C is not read, and may be null or NaN
  float scale = 1;  ///< multiplies what is stored in D, where asked for; of nvfp4, before its scale
                    ///< factors are chosen, to bring them into the range of e4m3
  // With `device_factors`, each a float in device memory that the kernel reads when it runs; null: that above, or 1.
  const float* device_alpha = nullptr;  ///< in place of alpha
  const float* device_beta = nullptr;   ///< in place of beta; where it is 0, C is brought, not used, and may be NaN
  const float* device_scale = nullptr;  ///< in place of scale
  const float* a_scale = nullptr;       ///< of A: multiplies alpha
  const float* b_scale = nullptr;       ///< of B: multiplies alpha
};

/// The largest M, N and K: 65535 tiles of 128.
inline constexpr int64_t kLargestGemmExtent = 65535 * 128;

struct GemmKernel;
struct GemmLaunch;

/// A kernel that was chosen for a problem. It can be run any number of times, on any stream, and in a graph.
class GemmPlan {
 public:
  /// Checks the problem and chooses one of the compiled kernels for the current device.
  /// @returns the plan, or what is wrong with the problem, the request or the device.
  static GemmExpected<GemmPlan> choose(const GemmProblem& problem, const GemmRequest& request = {});
  /// The same, among kernels of the caller's: those that launch.cuh makes of the program's own configurations, those of
  /// a GemmCompiler, or `shipped_gemms()` with more. They must exist for as long as the plan does.
  static GemmExpected<GemmPlan> choose(const GemmProblem& problem, const GemmRequest& request,
                                       std::span<const GemmKernel* const> kernels);

  /// What the kernel was compiled for.
  const GemmConfig& config() const;
  /// The launch in one line: "bf16 x bf16 -> bf16, tn, tile 128x128, ...".
  std::string description() const;
  /// Why this kernel, one sentence a line.
  const std::vector<std::string>& reasons() const { return reasons_; }
  /// Bytes of device memory that `run` needs besides the matrices; 0 for none.
  size_t workspace_bytes() const { return workspace_bytes_; }

  /// Starts the kernel on `stream`, and returns at once.
  ///
  /// What goes wrong while it runs, the next synchronising call reports.
  /// @param workspace        device memory, 16-byte aligned, which nothing else uses meanwhile.
  /// @param workspace_bytes  its size, at least `workspace_bytes()`.
  /// @returns nothing, or why nothing was started.
  std::optional<GemmError> run(const GemmArguments& arguments, void* workspace, size_t workspace_bytes,
                               cudaStream_t stream = nullptr) const;

 private:
  GemmPlan() = default;

  std::shared_ptr<const GemmLaunch> launch_;  // what every run has in common
  const GemmKernel* kernel_ = nullptr;
  size_t workspace_bytes_ = 0;
  std::vector<std::string> reasons_;
};

/// Chooses a kernel that needs no workspace, and starts it on `stream`. Keep a GemmPlan where the same problem is
/// computed more than once.
/// @returns nothing, or why nothing was started.
std::optional<GemmError> gemm(const GemmProblem& problem, const GemmArguments& arguments,
                              cudaStream_t stream = nullptr);

/// The names by which the command line and messages know things: "bf16", "gelu-tanh", "clc".
const char* name_of(DataType type);
/// The same for activations.
const char* name_of(GemmActivation activation);
/// The same for schedules.
const char* name_of(GemmSchedule schedule);

/// The configuration as one line: "bf16 x bf16 -> bf16, tile 128x128, ...".
std::string describe(const GemmConfig& config);

}  // namespace stagecraft
