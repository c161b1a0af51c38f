#include "stagecraft/gemm/plan.hpp"

#include <algorithm>
#include <initializer_list>
#include <tuple>
#include <utility>

#include "stagecraft/gemm/chooser.hpp"
#include "stagecraft/gemm/extents.hpp"
#include "stagecraft/gemm/kernel_table.hpp"

namespace stagecraft {
namespace {

using Failure = std::optional<GemmError>;

GemmError bad_problem(std::string message) { return {GemmFailure::bad_problem, std::move(message)}; }

using detail::padded_to;

Failure check_range(const std::string& name, int64_t value, int64_t smallest, int64_t largest) {
  if (value >= smallest && value <= largest) return std::nullopt;
  return bad_problem(name + " = " + std::to_string(value) + " is too " + (value < smallest ? "small" : "large") +
                     ". Legal are " + std::to_string(smallest) + " to " + std::to_string(largest) + ".");
}

Failure check_extent(const char* name, int64_t extent, int64_t largest) {
  return check_range(name, extent, 1, largest);
}

/// An enumeration may hold any number.
template <typename Enum>
Failure check_enumerator(const char* name, Enum value, Enum last) {
  return check_range(name, static_cast<int64_t>(value), 0, static_cast<int64_t>(last));
}

/// The first failure of several, if there is one.
Failure first_of(std::initializer_list<Failure> failures) {
  for (const Failure& failure : failures) {
    if (failure) return failure;
  }
  return std::nullopt;
}

DataType type_of(const GemmCompanion& matrix) { return *matrix.type; }
DataType type_of(const auto& matrix) { return matrix.type; }

/// Fills in the strides of a matrix of `lines` lines of `contiguous` elements each, and checks them.
/// @param multiple  elements that both strides must be a multiple of; 1 for a matrix that no tensor map describes.
template <typename Matrix>
Failure settle_strides(const char* name, Matrix& matrix, int64_t lines, int64_t contiguous, int64_t batches,
                       int64_t multiple) {
  const DataType type = type_of(matrix);
  const auto said = [&](const char* what, int64_t value, const std::string& problem) {
    return bad_problem(std::string("the ") + what + " of " + name + ", " + std::to_string(value) + " " + name_of(type) +
                       " elements, " + problem);
  };
  const std::string off_boundary = "is not a multiple of " + std::to_string(multiple) +
                                   ": the next would start off a 16-byte boundary, which the tensor map cannot "
                                   "address. Pad it to ";
  const int64_t longest = (int64_t{1} << 40) / bits_of(type) * 8;
  if (matrix.pitch == 0) matrix.pitch = contiguous;
  if (matrix.pitch < contiguous) {
    return said("pitch", matrix.pitch, "is less than the " + std::to_string(contiguous) + " of a line.");
  }
  if (matrix.pitch % multiple != 0) {
    return said("pitch", matrix.pitch, off_boundary + std::to_string(padded_to(multiple, matrix.pitch)) + ".");
  }
  if (matrix.pitch >= longest) return said("pitch", matrix.pitch, "is too large: it must be less than 2^40 bytes.");
  const int64_t span = (lines - 1) * matrix.pitch + contiguous;
  if (matrix.batch_stride == 0) matrix.batch_stride = lines * matrix.pitch;
  if (batches == 1) {
    const int64_t words = 128 / bits_of(type);  // any stride will do, so that one is taken that a map can have
    matrix.batch_stride = padded_to(words, span);
    return std::nullopt;
  }
  if (matrix.batch_stride < span) {
    return said("batch stride", matrix.batch_stride, "is less than the " + std::to_string(span) + " of a matrix.");
  }
  if (matrix.batch_stride % multiple != 0) {
    return said("batch stride", matrix.batch_stride,
                off_boundary + std::to_string(padded_to(multiple, matrix.batch_stride)) + ".");
  }
  if (matrix.batch_stride >= longest) {
    return said("batch stride", matrix.batch_stride, "is too large: it must be less than 2^40 bytes.");
  }
  return std::nullopt;
}

/// Groups are batches of B; of A and D too, if they are masked.
Failure settle_groups(GemmProblem& problem) {
  const GemmGroups& groups = problem.groups;
  if (auto failure = check_range("groups.masked", groups.masked, 0, kMostGroups)) return failure;
  if (!groups.exist()) return std::nullopt;
  if (groups.is_contiguous() && groups.masked > 0) return bad_problem("groups are either contiguous or masked.");
  if (problem.batches != 1) return bad_problem("a problem has batches or groups, not both.");
  const int64_t count = groups.is_contiguous() ? std::ssize(groups.rows) : groups.masked;
  if (auto failure = check_range("the number of groups", count, 1, kMostGroups)) return failure;
  int64_t all = 0;
  for (size_t i = 0; i < groups.rows.size(); ++i) {
    const std::string name = "groups.rows[" + std::to_string(i) + "]";
    if (auto failure = check_range(name, groups.rows[i], 0, kLargestGemmExtent)) return failure;
    all += groups.rows[i];
  }
  if (groups.is_contiguous() && all != problem.m) {
    return bad_problem("the groups have " + std::to_string(all) +
                       " rows together, and M = " + std::to_string(problem.m) + ": they must add up to M.");
  }
  // A group's rows begin where its box of A does.
  const int64_t multiple = 128 / bits_of(problem.a.type);
  int64_t begin = 0;
  for (const int64_t rows : groups.rows) {
    if (problem.a.major == Major::mn && rows > 0 && begin % multiple != 0) {
      return bad_problem("a group begins at row " + std::to_string(begin) + ", which is not a multiple of " +
                         std::to_string(multiple) + ": with A contiguous along M, its " + name_of(problem.a.type) +
                         " elements would start off a 16-byte boundary, which the tensor map cannot address. Pad the "
                         "group before it, or let A be contiguous along K.");
    }
    begin += rows;
  }
  problem.batches = count;
  return std::nullopt;
}

/// Checks everything but addresses, and fills in what was left out.
Failure settle(GemmProblem& problem) {
  auto& [m, n, k, batches, a, b, d, fusion, c, second, groups] = problem;
  if (auto failure =
          first_of({check_enumerator("a.type", a.type, DataType::fp8_blockwise),
                    check_enumerator("b.type", b.type, DataType::fp8_blockwise),
                    check_enumerator("d.type", d.type, DataType::fp8_blockwise),
                    check_enumerator("a.major", a.major, Major::mn), check_enumerator("b.major", b.major, Major::mn),
                    check_enumerator("fusion.activation", fusion.activation, GemmActivation::gated_silu)})) {
    return failure;
  }
  if (auto failure = settle_groups(problem)) return failure;
  if (!can_multiply(a.type, b.type)) {
    return bad_problem(std::string("A of ") + name_of(a.type) + " and B of " + name_of(b.type) +
                       " cannot be multiplied. Legal are bf16, f16, tf32, e4m3, e5m2, mxfp8, mxfp4, nvfp4 and "
                       "fp8-blockwise, both the same, and e4m3 with e5m2.");
  }
  if (has_scale_factors(a.type) && (a.major != Major::k || b.major != Major::k)) {
    return bad_problem(std::string("A and B of ") + name_of(a.type) +
                       " must be contiguous along K: so are the blocks that share a scale factor.");
  }
  if (bits_of(a.type) == 4 && k % 2 != 0) {
    return bad_problem("K = " + std::to_string(k) + " is odd, and two elements of 4 bits share a byte.");
  }
  if (!can_store(d.type)) {
    return bad_problem(std::string("a result of ") + name_of(d.type) +
                       " cannot be stored. Legal are f32, bf16, f16, e4m3, mxfp8, mxfp4 and nvfp4.");
  }
  if (auto failure = first_of({check_extent("M", m, kLargestGemmExtent), check_extent("N", n, kLargestGemmExtent),
                               check_extent("K", k, kLargestGemmExtent), check_extent("batches", batches, 65535)})) {
    return failure;
  }
  const int64_t batches_of_a = problem.matrices_of_a();
  if (auto failure = settle_strides("A", a, a.major == Major::k ? m : k, a.major == Major::k ? k : m, batches_of_a,
                                    128 / bits_of(a.type))) {
    return failure;
  }
  if (auto failure = settle_strides("B", b, b.major == Major::k ? n : k, b.major == Major::k ? k : n, batches,
                                    128 / bits_of(b.type))) {
    return failure;
  }
  const bool gated = fusion.activation == GemmActivation::gated_silu;
  if (gated && n % 2 != 0) {
    return bad_problem("N = " + std::to_string(n) + " is odd, and a gated activation makes one column of two.");
  }
  const int64_t columns = gated ? n / 2 : n;
  if (bits_of(d.type) == 4 && columns % 2 != 0) {
    return bad_problem("D has " + std::to_string(columns) +
                       " columns, and two elements of 4 bits share a byte. Make it " + std::to_string(columns + 1) +
                       ".");
  }
  // A block-scaled D must be fit to be an operand.
  const int64_t multiple_of_d = is_block_scaled(d.type) ? 128 / bits_of(d.type) : 1;
  if (auto failure = settle_strides("D", d, m, columns, batches_of_a, multiple_of_d)) return failure;
  if (fusion.bias && !can_add(fusion.bias_type)) {
    return bad_problem(std::string("fusion.bias_type = ") + name_of(fusion.bias_type) +
                       ". Legal are f32, bf16 and f16.");
  }
  for (auto [name, matrix, is_used] :
       {std::tuple{"C", &c, fusion.c}, {"the second output", &second, fusion.second_output}}) {
    const DataType usual = companion_of(d.type), type = matrix->type.value_or(usual);
    const bool is_c = matrix == &c;
    if (is_used && (is_c ? !can_add(type) : type != usual)) {
      return bad_problem(std::string(name) + " is of " + name_of(type) + ". Legal " +
                         (is_c ? "are f32, bf16 and f16." : std::string("is ") + name_of(usual) + "."));
    }
    matrix->type = type;
    if (!is_used) continue;
    // TMA stores the second output, but not that of groups or of a gated activation.
    const bool has_map = !is_c && !gated && !groups.exist();
    if (auto failure = settle_strides(name, *matrix, m, n, batches_of_a, has_map ? 128 / bits_of(type) : 1))
      return failure;
  }
  return std::nullopt;
}

/// Whether TMA can store a matrix: its rows and its batches begin on 16-byte boundaries, and it writes
/// whole pieces of 16 bytes, also at the end of a row, where it would overwrite what is between the rows. (Measured on
/// an H200; the manual does not say.) With a second output that it stores, too, it may: GemmArguments says so.
bool is_mappable(const GemmProblem& problem, const GemmConfig& config) {
  const GemmDestination& d = problem.d;
  const int64_t multiple = 128 / bits_of(d.type);
  const bool gated = problem.fusion.activation == GemmActivation::gated_silu;
  const bool ends_with_a_piece = (gated ? problem.n / 2 : problem.n) % multiple == 0;
  return d.pitch % multiple == 0 && d.batch_stride % multiple == 0 &&
         (ends_with_a_piece || (problem.fusion.second_output && copies_second_output(config)));
}

/// The groups as a kernel takes them.
GroupRows rows_of_groups(const GemmGroups& groups, int64_t m) {
  GroupRows rows{.groups = static_cast<int>(groups.is_contiguous() ? std::ssize(groups.rows) : groups.masked),
                 .most = groups.masked > 0 ? static_cast<int>(m) : 0};
  int end = 0, scale_row = 0;
  for (size_t i = 0; i < groups.rows.size(); ++i) {
    rows.scale_rows[i] = scale_row;
    rows.ends[i] = end += static_cast<int>(groups.rows[i]);
    scale_row += static_cast<int>(padded_to(128, groups.rows[i]));
  }
  return rows;
}

Failure check_request(const GemmRequest& request) {
  const auto refuse = [](const char* name, int value, const char* legal) {
    return bad_problem(std::string(name) + " = " + std::to_string(value) + " is too small. Legal are " + legal);
  };
  if (request.schedule) {
    if (auto failure = check_enumerator("schedule", *request.schedule, GemmSchedule::launch_control)) return failure;
  }
  if (auto failure = first_of({check_enumerator("raster.order", request.raster.order, RasterOrder::along_n),
                               check_range("fallback_m", request.fallback_m, 0, 16),
                               check_range("fallback_n", request.fallback_n, 0, 16)})) {
    return failure;
  }
  if (request.blocks < 0) return refuse("blocks", request.blocks, "0, as many as run at once, and larger.");
  if (request.split_k < 1) return refuse("split_k", request.split_k, "1, which divides nothing, and larger.");
  if (request.split_k > 1 && request.stream_k) {
    return bad_problem(
        "split_k and stream_k exclude each other: the pieces of a tile are either equally many for each "
        "tile, or equally long for each cluster.");
  }
  if (request.stream_k && request.schedule.value_or(GemmSchedule::persistent) == GemmSchedule::one_tile) {
    return bad_problem(
        "stream_k shares the work among the clusters that run at once: it needs a persistent schedule or "
        "launch control.");
  }
  return std::nullopt;
}

Failure check_address(const char* name, const void* address, uintptr_t alignment) {
  if (address == nullptr) return bad_problem(std::string("the address of ") + name + " is null.");
  if (reinterpret_cast<uintptr_t>(address) % alignment == 0) return std::nullopt;
  return bad_problem(std::string("the address of ") + name + " is not a multiple of " + std::to_string(alignment) +
                     " bytes" + (alignment == 16 ? ", as the tensor map needs." : ", the size of an element."));
}

/// The multiprocessors of the current device, if it can run the kernels.
GemmExpected<int> multiprocessors() {
  int device = 0, major = 0, minor = 0, count = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  if (error != cudaSuccess) {
    return GemmError{GemmFailure::bad_device, std::string("there is no usable device: ") + cudaGetErrorString(error)};
  }
  if (major == 10) return count;
  return GemmError{GemmFailure::bad_device,
                   "the device has compute capability " + std::to_string(major) + "." + std::to_string(minor) +
                       ", and only 10.x (B200, GB200, B300) has the tcgen05 instructions that the kernels need."};
}

}  // namespace

GemmExpected<GemmPlan> GemmPlan::choose(const GemmProblem& wanted, const GemmRequest& request,
                                        std::span<const GemmKernel* const> kernels) {
  GemmProblem problem = wanted;
  if (auto failure = settle(problem)) return *failure;
  if (auto failure = check_request(request)) return *failure;
  const GemmExpected<int> device = multiprocessors();
  if (!device) return device.error();
  if (request.stream_k && problem.groups.exist()) {
    return bad_problem(
        "stream_k shares the k-tiles of all tiles evenly, and how many tiles masked groups have only the kernel knows: "
        "groups are divided by split_k.");
  }
  if (const char* const reason = why_not_exchanged(problem); request.swap.value_or(false) && reason != nullptr) {
    return bad_problem(reason);
  }

  std::vector<GemmConfig> configs;
  for (const GemmKernel* kernel : kernels) configs.push_back(kernel->config);
  const int blocks = request.blocks > 0 ? request.blocks : *device;
  const GemmExpected<GemmChoice> choice = choose_kernel(configs, problem, request, blocks);
  if (!choice) return choice.error();

  GemmPlan plan;
  plan.kernel_ = kernels[choice->index];
  plan.reasons_ = choice->reasons;
  const GemmConfig& config = plan.config();
  const bool swaps = config.transposes_d;
  if (swaps) problem = exchanged(problem);
  const int cluster_blocks = config.cluster_m * config.cluster_n;
  const GemmEstimate found = estimate(config, problem, cluster_blocks);  // one cluster: as many rounds as units
  const int64_t splits = std::min<int64_t>(request.split_k, detail::ceil_div(problem.k, tile_k_of(config.a)));
  const int64_t pieces = found.rounds * splits;
  if (pieces * cluster_blocks > INT32_MAX) {
    return bad_problem("the result has " + std::to_string(found.rounds * cluster_blocks) + " tiles of " +
                       std::to_string(config.tile_m / config.cta_group) + "x" + std::to_string(config.tile_n) +
                       (splits > 1 ? " in " + std::to_string(splits) + " pieces each" : "") +
                       ", which an index of 32 bits cannot count. Compute it in parts.");
  }
  uint32_t resident = 0;
  if (const cudaError_t error = plan.kernel_->find_clusters(resident); error != cudaSuccess || resident == 0) {
    return GemmError{GemmFailure::bad_device,
                     "the device cannot run " + describe(config) + ": " +
                         (error != cudaSuccess ? cudaGetErrorString(error) : "no cluster of that size fits")};
  }
  const uint32_t most = request.blocks > 0 ? std::max(1, request.blocks / cluster_blocks) : INT32_MAX;
  GemmLaunch launch{.problem = problem,
                    .clusters = std::min(resident, most),
                    .raster = request.raster,
                    .splits = static_cast<uint32_t>(splits),
                    .stream_k = request.stream_k,
                    .groups = rows_of_groups(problem.groups, problem.m),
                    .has_d_map = is_mappable(problem, config) && !swaps,
                    .swaps = swaps,
                    .dependent = request.dependent};
  if (request.schedule == GemmSchedule::one_tile) launch.clusters = static_cast<uint32_t>(pieces);
  plan.workspace_bytes_ = plan.kernel_->workspace_bytes(launch);
  plan.launch_ = std::make_shared<const GemmLaunch>(launch);
  return plan;
}

const GemmConfig& GemmPlan::config() const { return kernel_->config; }

std::string GemmPlan::description() const {
  std::string text = describe(config()) + "; " + std::to_string(kernel_->stages) + " stages, " +
                     std::to_string(kernel_->shared_bytes / 1024) + " KiB of shared memory";
  if (!config().launch_control) text += "; at most " + std::to_string(launch_->clusters) + " clusters";
  if (!launch_->has_d_map && !launch_->swaps)
    text += "; D is stored row by row, because its rows do not begin and end on 16-byte boundaries";
  if (workspace_bytes_ > 0) text += "; " + std::to_string(workspace_bytes_) + " bytes of workspace";
  return text;
}

std::optional<GemmError> GemmPlan::run(const GemmArguments& arguments, void* workspace, size_t bytes,
                                       cudaStream_t stream) const {
  const GemmProblem& problem = launch_->problem;
  const GemmFusion& fusion = problem.fusion;
  if (auto failure = check_address("A", arguments.a, 16)) return failure;
  if (auto failure = check_address("B", arguments.b, 16)) return failure;
  if (has_scale_factors(problem.a.type)) {
    const uintptr_t alignment_of_b = is_blockwise(problem.b.type) ? sizeof(float) : 16;  // no tensor map describes them
    if (auto failure = check_address("A's scale factors", arguments.a_scale_factors, 16)) return failure;
    if (auto failure = check_address("B's scale factors", arguments.b_scale_factors, alignment_of_b)) return failure;
  }
  const bool scales_d = is_block_scaled(problem.d.type);
  if (auto failure = check_address("D", arguments.d, scales_d ? 16 : bits_of(problem.d.type) / 8)) return failure;
  if (scales_d) {
    if (auto failure = check_address("D's scale factors", arguments.d_scale_factors, 16)) return failure;
  }
  const std::tuple<bool, const char*, const void*, uintptr_t> optional[] = {
      {fusion.c && reads_c(arguments), "C", arguments.c, copies_c(config()) ? 16 : bits_of(*problem.c.type) / 8},
      {fusion.second_output, "the second output", arguments.second,
       copies_second_output(config()) ? 16 : bits_of(*problem.second.type) / 8},
      {fusion.bias, "the bias", arguments.bias, bits_of(fusion.bias_type) / 8},
      {fusion.row_scales, "the scales of the rows", arguments.row_scales, 4},
      {fusion.column_scales, "the scales of the columns", arguments.column_scales, 4},
      {fusion.absolute_maximum, "the absolute maximum", arguments.absolute_maximum, 4},
  };
  for (const auto& [is_used, name, address, alignment] : optional) {
    if (!is_used) continue;
    if (auto failure = check_address(name, address, alignment)) return failure;
  }
  for (const auto& [name, address] : {std::pair{"device_alpha", arguments.device_alpha},
                                      {"device_beta", arguments.device_beta},
                                      {"device_scale", arguments.device_scale},
                                      {"a_scale", arguments.a_scale},
                                      {"b_scale", arguments.b_scale}}) {
    if (address == nullptr) continue;
    if (!fusion.device_factors) return bad_problem(std::string(name) + " needs a problem with fusion.device_factors.");
    if (auto failure = check_address(name, address, 4)) return failure;
  }
  const bool d_is_aligned = reinterpret_cast<uintptr_t>(arguments.d) % 16 == 0;
  if (fusion.second_output && copies_second_output(config()) && !(launch_->has_d_map && d_is_aligned)) {
    return bad_problem(
        "with a second output, D must begin on a 16-byte boundary, and so must its rows and its "
        "batches: both are stored by TMA.");
  }
  if (bytes < workspace_bytes_) {
    return GemmError{GemmFailure::bad_workspace, "the workspace has " + std::to_string(bytes) +
                                                     " bytes, and the plan needs " + std::to_string(workspace_bytes_) +
                                                     ": allocate plan.workspace_bytes()."};
  }
  if (workspace_bytes_ > 0) {
    if (auto failure = check_address("the workspace", workspace, 16)) {
      return GemmError{GemmFailure::bad_workspace, failure->message};
    }
  }
  GemmLaunch launch = *launch_;
  launch.arguments = arguments;
  if (launch.swaps) {
    std::swap(launch.arguments.a, launch.arguments.b);
    std::swap(launch.arguments.a_scale_factors, launch.arguments.b_scale_factors);
  }
  if (problem.groups.masked > 0) {
    if (auto failure = check_address("the rows of the groups", arguments.group_rows, 4)) return failure;
    launch.groups.counts = arguments.group_rows;
  }
  if (!fusion.scale) {
    launch.arguments.scale = 1;
    launch.arguments.device_scale = nullptr;
  }
  launch.has_d_map = launch.has_d_map && d_is_aligned;
  launch.workspace = workspace;
  launch.stream = stream;
  return kernel_->launch(launch);
}

const char* name_of(DataType type) {
  switch (type) {
    case DataType::bf16: return "bf16";
    case DataType::f16: return "f16";
    case DataType::tf32: return "tf32";
    case DataType::e4m3: return "e4m3";
    case DataType::e5m2: return "e5m2";
    case DataType::f32: return "f32";
    case DataType::mxfp8: return "mxfp8";
    case DataType::mxfp4: return "mxfp4";
    case DataType::nvfp4: return "nvfp4";
    case DataType::fp8_blockwise: return "fp8-blockwise";
  }
  return "?";
}

const char* name_of(GemmActivation activation) {
  switch (activation) {
    case GemmActivation::none: return "none";
    case GemmActivation::relu: return "relu";
    case GemmActivation::gelu: return "gelu";
    case GemmActivation::gelu_tanh: return "gelu-tanh";
    case GemmActivation::silu: return "silu";
    case GemmActivation::gated_silu: return "gated-silu";
  }
  return "?";
}

const char* name_of(GemmSchedule schedule) {
  switch (schedule) {
    case GemmSchedule::one_tile: return "one-tile";
    case GemmSchedule::persistent: return "persistent";
    case GemmSchedule::launch_control: return "clc";
  }
  return "?";
}

std::string describe(const GemmConfig& config) {
  std::string text = std::string(name_of(config.a)) + " x " + name_of(config.b) + " -> " + name_of(config.d) + ", " +
                     (config.a_major == Major::k ? "t" : "n") + (config.b_major == Major::k ? "n" : "t") + ", " +
                     describe_tiles(config);
  if (config.epilogue == GemmEpilogue::full) text += ", epilogue";
  if (config.epilogue == GemmEpilogue::gated) text += ", gated activation";
  if (config.adds_c) text += ", C";
  text += describe_additions(config);
  if (config.groups) text += ", groups";
  if (config.transposes_d) text += ", D transposed";
  return text;
}

}  // namespace stagecraft
