#include "stagecraft/attention/plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <tuple>
#include <utility>

#include "stagecraft/attention/kernel_table.hpp"

namespace stagecraft {
namespace {

using Failure = std::optional<AttentionError>;

AttentionError bad_problem(std::string message) { return {AttentionFailure::bad_problem, std::move(message)}; }

Failure check_range(const std::string& name, int64_t value, int64_t smallest, int64_t largest) {
  if (value >= smallest && value <= largest) return std::nullopt;
  return bad_problem(name + " = " + std::to_string(value) + " is too " + (value < smallest ? "small" : "large") +
                     ". Legal are " + std::to_string(smallest) + " to " + std::to_string(largest) + ".");
}

std::string in_digits(float value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

/// The kernel multiplies logits by log2(e), and divides sinks by the product: both must stay finite.
Failure check_factor(const char* name, float value) {
  if (value == 0 || (value >= 0x1p-100f && value <= 0x1p100f)) return std::nullopt;
  return bad_problem(std::string(name) + " = " + in_digits(value) + " is too " + (value < 1 ? "small" : "large") +
                     ". Legal are 2^-100 to 2^100, about 8e-31 to 1e30.");
}

/// The first failure of several, if there is one.
Failure first_of(std::initializer_list<Failure> failures) {
  for (const Failure& failure : failures) {
    if (failure) return failure;
  }
  return std::nullopt;
}

/// The name of a type that attention has.
const char* name(DataType type) {
  switch (type) {
    case DataType::bf16: return "bf16";
    case DataType::f16: return "f16";
    case DataType::e4m3: return "e4m3";
    default: return "another type";
  }
}

/// Fills in the strides of a matrix, and checks them.
/// @param type      of its elements.
/// @param rows      of a sequence; of the cache, those of a page are the same as the others.
/// @param may_move  sequences have one length, and no pages: there may be a stride from one to the next.
/// @param follow    whether the rows of a sequence follow those of the one before.
Failure settle_strides(const char* matrix, AttentionStrides& strides, DataType type, int64_t sequences, int64_t rows,
                       int64_t heads, int64_t dim, bool may_move, bool& follow) {
  const int64_t multiple = 128 / bits_of(type);
  if (strides.token == 0) strides.token = heads * (strides.head != 0 ? strides.head : dim);
  if (strides.head == 0) strides.head = dim;
  const auto said = [&](const char* what, int64_t value, const std::string& problem) {
    return bad_problem("the stride from one " + std::string(what) + " of " + matrix + " to the next, " +
                       std::to_string(value) + " " + name(type) + " elements, " + problem);
  };
  const auto check = [&](const char* what, int64_t value, int64_t least) -> Failure {
    if (value < least) return said(what, value, "is less than the " + std::to_string(least) + " of a row.");
    if (value % multiple != 0) {
      return said(what, value,
                  "is not a multiple of " + std::to_string(multiple) +
                      ": the next would start off a 16-byte boundary, which the tensor map cannot address. Pad it to " +
                      std::to_string((value + multiple - 1) / multiple * multiple) + ".");
    }
    if (value >= (int64_t{1} << 40) / bits_of(type) * 8) return said(what, value, "must be less than 2^40 bytes.");
    return std::nullopt;
  };
  if (auto failure = first_of({check("token", strides.token, dim), check("head", strides.head, dim)})) return failure;
  follow = true;
  if (!may_move) {
    if (strides.sequence == 0) return std::nullopt;
    return said("sequence", strides.sequence,
                "is of sequences of one length. With variable lengths, and with pages, leave it 0.");
  }
  const int64_t after_rows = rows * strides.token, after_heads = heads * strides.head;
  if (strides.sequence == 0) strides.sequence = strides.head > strides.token ? after_heads : after_rows;
  if (sequences == 1 || rows == 0 || strides.sequence == after_rows) return std::nullopt;
  follow = false;
  if (strides.sequence == after_heads) return std::nullopt;
  return said("sequence", strides.sequence,
              "is neither " + std::to_string(after_rows) + ", that of its tokens, nor " + std::to_string(after_heads) +
                  ", that of its heads: one tensor map describes all sequences.");
}

/// Checks everything but addresses, and fills in what was left out.
Failure settle(AttentionProblem& problem, bool& queries_follow, bool& keys_follow) {
  AttentionProblem& p = problem;
  if (p.type != DataType::bf16 && p.type != DataType::f16 && p.type != DataType::e4m3) {
    return bad_problem("Q, K and V must be of bf16, f16 or e4m3.");
  }
  const DataType usual = p.type == DataType::e4m3 ? DataType::bf16 : p.type;
  if (p.output.value_or(usual) != usual) {
    return bad_problem(std::string("an output of ") + name(*p.output) + " cannot be stored. Legal with " +
                       name(p.type) + " is " + name(usual) + ".");
  }
  p.output = usual;
  if (p.kv_heads == 0) p.kv_heads = p.heads;
  if (p.value_dim == 0) p.value_dim = std::min<int64_t>(p.head_dim, 128);
  if (p.scale == 0) p.scale = 1 / std::sqrt(static_cast<float>(std::max<int64_t>(p.head_dim, 1)));
  if (auto failure =
          first_of({check_range("sequences", p.sequences, 1, 1 << 20),
                    check_range("queries", p.queries, 0, kMostTokens), check_range("keys", p.keys, 0, kMostTokens),
                    check_range("heads", p.heads, 1, 65535), check_range("kv_heads", p.kv_heads, 1, 65535),
                    check_range("head_dim", p.head_dim, 8, 192), check_range("value_dim", p.value_dim, 8, 128)})) {
    return failure;
  }
  const int64_t multiple = 128 / bits_of(p.type);
  for (const auto& [what, dim] : {std::pair{"head_dim", p.head_dim}, {"value_dim", p.value_dim}}) {
    if (dim % multiple == 0) continue;
    return bad_problem(std::string(what) + " = " + std::to_string(dim) + " is not a multiple of " +
                       std::to_string(multiple) + ", which in " + name(p.type) +
                       " are 16 bytes: a row would start off a 16-byte boundary, which the tensor map cannot address. "
                       "Pad it to " +
                       std::to_string((dim + multiple - 1) / multiple * multiple) + ".");
  }
  if (p.heads % p.kv_heads != 0) {
    return bad_problem("heads = " + std::to_string(p.heads) + " is not a multiple of kv_heads = " +
                       std::to_string(p.kv_heads) + ": each head of K and V serves equally many of Q.");
  }
  if (!(p.scale > 0) || !std::isfinite(p.scale)) {
    return bad_problem("scale = " + std::to_string(p.scale) +
                       " must be positive and finite: the largest product gives the largest logit. For a negative one, "
                       "negate Q.");
  }
  if (!(p.soft_cap >= 0) || !std::isfinite(p.soft_cap)) {
    return bad_problem("soft_cap = " + std::to_string(p.soft_cap) + " must be positive and finite, or 0 for none.");
  }
  if (auto failure = first_of({check_factor("scale", p.scale), check_factor("soft_cap", p.soft_cap)})) return failure;
  if (p.soft_cap != 0 && !std::isnormal(p.scale / p.soft_cap)) {
    return bad_problem("scale = " + in_digits(p.scale) + " and soft_cap = " + in_digits(p.soft_cap) +
                       " are too far apart: products are multiplied by their quotient, which is a float.");
  }
  AttentionMask& mask = p.mask;
  if (auto failure = first_of({check_range("window_left", mask.window_left, -1, kMostTokens),
                               check_range("window_right", mask.window_right, -1, kMostTokens)})) {
    return failure;
  }
  if (mask.causal) mask.window_right = 0;
  for (int64_t* window : {&mask.window_left, &mask.window_right}) {
    if (*window >= p.queries + p.keys) *window = -1;  // all, and sums with it stay small
  }
  AttentionPages& pages = p.pages;
  if (pages.size != 0) {
    if (pages.size != 16 && pages.size != 32 && pages.size != 64 && (pages.size < 0 || pages.size % 128 != 0)) {
      return bad_problem("pages.size = " + std::to_string(pages.size) +
                         ". Legal are 16, 32, 64 and multiples of 128: a copy brings the keys of one page, or 128.");
    }
    const int64_t needed = (p.keys + pages.size - 1) / pages.size;
    if (pages.of_sequence == 0) pages.of_sequence = needed;
    if (pages.of_sequence < needed) {
      return bad_problem("pages.of_sequence = " + std::to_string(pages.of_sequence) +
                         " is too small: " + std::to_string(p.keys) + " keys are in " + std::to_string(needed) +
                         " pages of " + std::to_string(pages.size) + ".");
    }
    if (auto failure = first_of({check_range("pages.count", pages.count, 1, kMostTokens / pages.size),
                                 check_range("pages.of_sequence", pages.of_sequence * p.sequences, 0, INT32_MAX)})) {
      return failure;
    }
  }
  if (auto failure = first_of({check_range("the queries of all sequences", p.sequences * p.queries, 0, kMostTokens),
                               check_range("the keys of all sequences", p.sequences * p.keys, 0, kMostTokens),
                               check_range("the heads of all sequences", p.sequences * p.heads, 1, INT32_MAX),
                               check_range("the tiles of all sequences and heads",
                                           (p.queries + 255) / 256 * p.sequences * p.heads, 0, INT32_MAX / 2)})) {
    return failure;
  }
  bool outputs_follow = true, values_follow = true;
  const bool queries_move = !p.variable_queries, keys_move = !p.variable_keys && pages.size == 0;
  if (auto failure = first_of(
          {settle_strides("Q", p.q, p.type, p.sequences, p.queries, p.heads, p.head_dim, queries_move, queries_follow),
           settle_strides("the output", p.o, usual, p.sequences, p.queries, p.heads, p.value_dim, queries_move,
                          outputs_follow),
           settle_strides("K", p.k, p.type, p.sequences, p.keys, p.kv_heads, p.head_dim, keys_move, keys_follow),
           settle_strides("V", p.v, p.type, p.sequences, p.keys, p.kv_heads, p.value_dim, keys_move, values_follow)})) {
    return failure;
  }
  if (queries_follow != outputs_follow || keys_follow != values_follow) {
    return bad_problem(
        std::string(queries_follow != outputs_follow ? "Q and the output" : "K and V") +
        " have their sequences in different orders: in both, the next one begins after the tokens of the "
        "one before, or after its heads.");
  }
  return std::nullopt;
}

Failure check_address(const char* what, const void* address, uintptr_t alignment) {
  if (address == nullptr) return bad_problem(std::string("the address of ") + what + " is null.");
  if (reinterpret_cast<uintptr_t>(address) % alignment == 0) return std::nullopt;
  return bad_problem(std::string("the address of ") + what + " is not a multiple of " + std::to_string(alignment) +
                     " bytes" + (alignment == 16 ? ", as the tensor map needs." : ", the size of an element."));
}

/// Whether the current device can run the kernels.
Failure check_device() {
  int device = 0, major = 0, minor = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  if (error != cudaSuccess) {
    return AttentionError{AttentionFailure::bad_device,
                          std::string("there is no usable device: ") + cudaGetErrorString(error)};
  }
  if (major == 10) return std::nullopt;
  return AttentionError{AttentionFailure::bad_device,
                        "the device has compute capability " + std::to_string(major) + "." + std::to_string(minor) +
                            ", and only 10.x (B200, GB200, B300) has the tcgen05 instructions that the kernels need."};
}

}  // namespace

AttentionExpected<AttentionPlan> AttentionPlan::choose(const AttentionProblem& wanted) {
  AttentionLaunch launch{.problem = wanted};
  AttentionProblem& problem = launch.problem;
  if (auto failure = settle(problem, launch.queries_follow, launch.keys_follow)) return *failure;
  if (auto failure = check_device()) return *failure;
  AttentionPlan plan;
  for (const AttentionKernel* kernel : shipped_attentions()) {
    const AttentionConfig& config = kernel->config;
    if (config.type != problem.type || config.head_dim < problem.head_dim || config.value_dim < problem.value_dim) {
      continue;
    }
    plan.kernel_ = kernel;
    break;
  }
  if (plan.kernel_ == nullptr) {
    return AttentionError{AttentionFailure::no_kernel,
                          std::string("no kernel was compiled for ") + name(problem.type) + " of these dimensions."};
  }
  if (const cudaError_t error = plan.kernel_->find_blocks(launch.blocks); error != cudaSuccess || launch.blocks == 0) {
    return AttentionError{AttentionFailure::bad_device,
                          "the device cannot run " + describe(plan.config()) + ": " +
                              (error != cudaSuccess ? cudaGetErrorString(error) : "no block fits")};
  }
  plan.launch_ = std::make_shared<const AttentionLaunch>(launch);
  return plan;
}

const AttentionConfig& AttentionPlan::config() const { return kernel_->config; }

const AttentionProblem& AttentionPlan::problem() const { return launch_->problem; }

std::string AttentionPlan::description() const {
  return describe(config()) + "; " + std::to_string(kernel_->stages) + " stages of keys or values, " +
         std::to_string(kernel_->shared_bytes / 1024) + " KiB of shared memory; at most " +
         std::to_string(launch_->blocks) + " blocks";
}

std::optional<AttentionError> AttentionPlan::run(const AttentionArguments& arguments, cudaStream_t stream) const {
  const AttentionProblem& problem = launch_->problem;
  const bool has_pages = problem.pages.size > 0;
  const std::tuple<bool, const char*, const void*, uintptr_t> addresses[] = {
      {true, "Q", arguments.q, 16},
      {true, "K", arguments.k, 16},
      {true, "V", arguments.v, 16},
      {true, "the output", arguments.o, 16},
      {problem.logsumexp, "the logsumexp", arguments.logsumexp, 4},
      {problem.sinks, "the sinks", arguments.sinks, 4},
      {problem.variable_queries, "the begins of the queries", arguments.query_begins, 4},
      {problem.variable_keys && !has_pages, "the begins of the keys", arguments.key_begins, 4},
      {problem.variable_keys && has_pages, "the lengths of the keys", arguments.key_lengths, 4},
      {has_pages, "the table of pages", arguments.page_table, 4},
  };
  for (const auto& [is_used, what, address, alignment] : addresses) {
    if (!is_used) continue;
    if (auto failure = check_address(what, address, alignment)) return failure;
  }
  if (problem.variable_queries) {
    if (auto failure = check_range("all_queries", arguments.all_queries, 0, kMostTokens)) return failure;
  }
  if (problem.variable_keys && !has_pages) {
    if (auto failure = check_range("all_keys", arguments.all_keys, 0, kMostTokens)) return failure;
  }
  AttentionLaunch launch = *launch_;
  launch.arguments = arguments;
  launch.stream = stream;
  return kernel_->launch(launch);
}

std::string describe(const AttentionConfig& config) {
  return std::string(name(config.type)) + " -> " + name(config.output) + ", dimensions up to " +
         std::to_string(config.head_dim) + " and " + std::to_string(config.value_dim) +
         (config.polynomials ? ", half of the powers by polynomials" : "");
}

}  // namespace stagecraft
