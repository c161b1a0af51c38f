#include "stagecraft/gemm/chooser.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "stagecraft/gemm/extents.hpp"
#include "stagecraft/gemm/legal.hpp"
#include "stagecraft/tmem_layout.hpp"

namespace stagecraft {
namespace {

using detail::ceil_div;
using detail::padded_to;

GemmEpilogue epilogue_for(const GemmFusion& fusion) {
  if (fusion.activation == GemmActivation::gated_silu) return GemmEpilogue::gated;
  return fusion.is_plain() ? GemmEpilogue::plain : GemmEpilogue::full;
}

/// Whether TMA cannot bring C, because its rows or its matrices begin off 16-byte boundaries.
bool gathers_c(const GemmProblem& problem) {
  if (!problem.fusion.c) return false;
  const int64_t multiple = 128 / bits_of(problem.c.type.value_or(companion_of(problem.d.type)));
  const int64_t pitch = problem.c.pitch > 0 ? problem.c.pitch : problem.n;
  return pitch % multiple != 0 || problem.c.batch_stride % multiple != 0;
}

/// A configuration with what a problem says of a kernel that computes it.
GemmConfig computing(const GemmProblem& problem, GemmConfig config = {}) {
  config.a = problem.a.type;
  config.b = problem.b.type;
  config.d = problem.d.type;
  config.a_major = problem.a.major;
  config.b_major = problem.b.major;
  config.epilogue = epilogue_for(problem.fusion);
  config.groups = problem.groups.exist();
  config.adds_c = problem.fusion.c;
  config.c = problem.fusion.c ? problem.c.type.value_or(companion_of(problem.d.type)) : DataType::bf16;
  config.bias = problem.fusion.bias ? problem.fusion.bias_type : DataType::f32;
  config.device_factors = problem.fusion.device_factors;
  config.gathers_c = gathers_c(problem) && !config.transposes_d;  // a kernel that transposes D does so unasked
  return config;
}

bool computes(const GemmConfig& config, const GemmProblem& problem) { return computing(problem, config) == config; }

/// Whether TMA can store D, too, where it stores the second output.
bool stores_both(const GemmConfig& config, const GemmProblem& problem) {
  if (!problem.fusion.second_output || !copies_second_output(config)) return true;
  const int64_t multiple = 128 / bits_of(problem.d.type);
  return problem.d.pitch % multiple == 0 && problem.d.batch_stride % multiple == 0;
}

bool divides(const GemmRequest& request) { return request.split_k > 1 || request.stream_k; }

/// The most rows of D for which A and B are exchanged without being asked to. A kernel that computes D transposed
/// stores it without TMA, which the estimate does not count.
constexpr int64_t kFewRows = 128;

/// Whether A and B may be exchanged. What the request names of tiles and clusters is meant as it is, not transposed.
bool may_exchange(const GemmProblem& problem, const GemmRequest& request) {
  if (request.swap) return *request.swap;
  return problem.m <= kFewRows && problem.m < problem.n && why_not_exchanged(problem) == nullptr && !request.tile_m &&
         !request.tile_n && !request.cluster_m && !request.cluster_n;
}

bool meets(const GemmConfig& config, const GemmProblem& problem, const GemmRequest& request) {
  const auto is = [](const std::optional<int>& wanted, int value) { return wanted.value_or(value) == value; };
  return is(request.tile_m, config.tile_m) && is(request.tile_n, config.tile_n) &&
         is(request.k_group, config.k_group) && is(request.accumulators, config.accumulators) &&
         is(request.cta_group, config.cta_group) && is(request.cluster_m, config.cluster_m) &&
         is(request.cluster_n, config.cluster_n) && request.fallback_m == config.fallback_m &&
         request.fallback_n == config.fallback_n && config.divides_k == divides(request) &&
         (config.transposes_d ? may_exchange(problem, request) : !request.swap.value_or(false)) &&
         config.launch_control == (request.schedule == GemmSchedule::launch_control);
}

std::string contiguous_along(char operand, Major major) {
  return std::string(1, operand) + " contiguous along " + (major == Major::k ? "K" : operand == 'A' ? "M" : "N");
}

std::string in_words(const GemmConfig& config) {
  if (config.epilogue == GemmEpilogue::plain) return "";
  return std::string(config.epilogue == GemmEpilogue::gated ? ", with a gated activation" : ", with an epilogue") +
         (config.adds_c ? " and C" : "") + describe_additions(config);
}

/// "bf16 x bf16 -> bf16 with A contiguous along K and B contiguous along K", of a kernel, or of computing().
std::string operands_of(GemmConfig config) {
  if (config.transposes_d) {
    std::swap(config.a, config.b);
    std::swap(config.a_major, config.b_major);
  }
  return std::string(name_of(config.a)) + " x " + name_of(config.b) + " -> " + name_of(config.d) + " with " +
         contiguous_along('A', config.a_major) + " and " + contiguous_along('B', config.b_major) + in_words(config) +
         (config.groups ? ", in groups" : "");
}

/// What there are kernels for: those for the types of A and B, or where there are none, all.
std::set<std::string> operands_of_kernels(std::span<const GemmConfig> candidates, const GemmProblem& problem) {
  std::set<std::string> same, all;
  for (const GemmConfig& config : candidates) {
    all.insert(operands_of(config));
    if (config.a == problem.a.type && config.b == problem.b.type) same.insert(operands_of(config));
  }
  return same.empty() ? all : same;
}

/// As describe_tiles(), and whether A and B are exchanged.
std::string options_of(const GemmConfig& config) {
  return describe_tiles(config) + (config.transposes_d ? ", A and B exchanged" : "");
}

std::string options_of(const GemmRequest& request) {
  std::string text;
  const auto add_text = [&](const std::string& option) { text += (text.empty() ? "" : ", ") + option; };
  const auto add = [&](const char* name, const std::optional<int>& value) {
    if (value) add_text(std::string(name) + " " + std::to_string(*value));
  };
  add("tile_m", request.tile_m);
  add("tile_n", request.tile_n);
  add("k_group", request.k_group);
  add("accumulators", request.accumulators);
  add("cta_group", request.cta_group);
  add("cluster_m", request.cluster_m);
  add("cluster_n", request.cluster_n);
  if (request.fallback_m != 0 || request.fallback_n != 0) {
    add("fallback_m", request.fallback_m);
    add("fallback_n", request.fallback_n);
  }
  if (request.schedule == GemmSchedule::launch_control) add_text("launch control");
  if (request.split_k > 1) add_text("split_k " + std::to_string(request.split_k));
  if (request.stream_k) add_text("stream_k");
  if (request.swap) add_text(*request.swap ? "A and B exchanged" : "A and B not exchanged");
  return text;
}

std::string counted(int64_t number, const char* what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

/// "96 tiles of D in 2 rounds, 4096 cycles of MMAs, 36 MiB of operands"
std::string in_words(const GemmEstimate& found) {
  char bytes[40];
  const double kib = static_cast<double>(found.operand_bytes) / 1024;
  std::snprintf(bytes, sizeof bytes, kib < 10240 ? "%.0f KiB" : "%.0f MiB", kib < 10240 ? kib : kib / 1024);
  return counted(found.tiles, "tile") + " of D in " + counted(found.rounds, "round") + ", " +
         counted(found.mma_cycles, "cycle") + " of MMAs, " + bytes + " of operands";
}

struct Ranked {
  GemmEstimate found;
  size_t index;
};

/// Whether so many cycles are as good as the fewest: the estimate is not exact enough to tell.
bool is_close(int64_t cycles, int64_t fewest) { return cycles * 10 <= fewest * 11; }

/// Why the first of a ranking is the first.
/// @param close  how many take as few cycles.
std::string reason(std::span<const GemmConfig> candidates, const std::vector<Ranked>& ranked, int64_t close) {
  if (ranked.size() == 1) return "it is the only one";
  const GemmEstimate &first = ranked[0].found, &second = ranked[1].found;
  const std::string runner_up = "; the runner-up, " + options_of(candidates[ranked[1].index]) + ", ";
  const auto more = [](int64_t value, int64_t than) {
    char text[40];
    std::snprintf(text, sizeof text, "%.0f %% more",
                  100.0 * static_cast<double>(value - than) / static_cast<double>(than));
    return std::string(text);
  };
  if (close == 1)
    return "it takes the fewest cycles" + runner_up + "takes " + more(second.mma_cycles, first.mma_cycles);
  const std::string group = "of the " + std::to_string(close) + " with the fewest cycles, give or take a tenth, ";
  if (first.operand_bytes < second.operand_bytes) {
    return group + "it loads the fewest bytes" + runner_up + "loads " + more(second.operand_bytes, first.operand_bytes);
  }
  if (first.mma_cycles < second.mma_cycles) {
    return group + "none loads fewer bytes" + runner_up + "loads as many and takes " +
           more(second.mma_cycles, first.mma_cycles) + " cycles";
  }
  return group + "none loads fewer bytes, and it is the first in the list";
}

/// The smallest legal width of a tile that all columns fit in, or as many as are legal up to 128.
int usual_tile_n(const GemmConfig& config, int64_t columns) {
  // Blocks that share a tile of B bring slices of 8 rows each; lines of tf32 contiguous along N have 32 elements.
  const int slices = config.b_major == Major::k ? 8 * config.cluster_m : 16 * config.cta_group;
  const int lines = config.a == DataType::tf32 && config.b_major == Major::mn ? 32 * config.cta_group : 16;
  const int pieces = config.epilogue == GemmEpilogue::gated ? 256 / bits_of(config.d) : 16;  // of 16 bytes of D
  const bool has_atoms = is_block_scaled(config.a) || is_block_scaled(config.d);  // of scale factors, or halves of them
  const int step =
      std::lcm(std::lcm(std::lcm(slices, lines), std::lcm(pieces, 16 * config.cta_group)), has_atoms ? 64 : 1);
  // What a stage may take of shared memory: the epilogue has the rest.
  const int kib = config.epilogue == GemmEpilogue::plain                      ? 170
                  : copies_c(config) && bits_of(config.c) > bits_of(config.d) ? 60
                                                                              : 120;
  const int k_group = std::clamp(config.k_group, 1, 8);
  const int rows = (kib * 1024 / (128 * k_group) - config.tile_m / config.cta_group) * config.cta_group;
  const int64_t most = std::max(std::min(128, rows) / step, 1) * step;
  GemmConfig tried = config;
  tried.tile_n = is_blockwise(config.a) ? static_cast<int>(std::bit_floor(static_cast<unsigned>(most)))
                                        : static_cast<int>(has_atoms ? most : std::min(padded_to(step, columns), most));
  // C of a wider type than D takes more than is counted above.
  while (detail::stages_that_fit(tried) < 1 && tried.tile_n > step) {
    tried.tile_n = std::max(tried.tile_n / 2 / step, 1) * step;
  }
  return tried.tile_n;
}

}  // namespace

GemmEstimate estimate(const GemmConfig& config, const GemmProblem& problem, int blocks, const GemmRequest& request) {
  constexpr int kMmasPerKTile = 4;  // 128 bytes along K, 32 for each
  const int n = config.tile_n;
  const int64_t k_tiles = ceil_div(problem.k, tile_k_of(config.a));
  const int64_t cycles = config.cta_group == 1  ? std::max(n / 2, config.tile_m / 4 + n / 4)
                         : config.tile_m == 128 ? std::max(n / 4, 17 + n / 8)
                                                : std::max(n / 2, 36 + n / 8);
  // Masked groups have at most as many rows as there are.
  const auto rows_of_tiles = [&](int64_t extent) {
    if (!problem.groups.is_contiguous()) return ceil_div(problem.m, extent) * problem.batches;
    int64_t sum = 0;
    for (const int64_t rows : problem.groups.rows) sum += ceil_div(rows, extent);
    return sum;
  };
  // Clusters compute whole clusters' tiles, also beyond the edge.
  const int64_t cluster_rows = rows_of_tiles(int64_t{config.cluster_m} / config.cta_group * config.tile_m);
  const int64_t cluster_columns = ceil_div(problem.n, int64_t{config.cluster_n} * n);
  const int64_t clusters = cluster_rows * cluster_columns;
  const int64_t at_a_time = std::max(1, blocks / (config.cluster_m * config.cluster_n));
  const int64_t pieces = std::min<int64_t>(request.split_k, k_tiles);
  GemmEstimate result;
  result.tiles = rows_of_tiles(config.tile_m) * ceil_div(problem.n, n);
  result.rounds = ceil_div(clusters * pieces, at_a_time);
  const int64_t k_tiles_in_a_row =
      request.stream_k ? ceil_div(clusters * k_tiles, at_a_time) : result.rounds * ceil_div(k_tiles, pieces);
  result.mma_cycles = k_tiles_in_a_row * kMmasPerKTile * cycles;
  const int64_t rows_of_a = problem.m * problem.matrices_of_a();
  result.operand_bytes = (rows_of_a * cluster_columns + problem.n * cluster_rows) * problem.k * bits_of(config.a) / 8;
  return result;
}

std::string describe_tiles(const GemmConfig& config) {
  std::string text = "tile " + std::to_string(config.tile_m) + "x" + std::to_string(config.tile_n);
  if (config.cta_group == 2) text += " of a pair";
  if (config.cluster_m * config.cluster_n > 1) {
    text += ", cluster " + std::to_string(config.cluster_m) + "x" + std::to_string(config.cluster_n);
  }
  if (config.fallback_m > 0) {
    text += " or " + std::to_string(config.fallback_m) + "x" + std::to_string(config.fallback_n);
  }
  text += ", k-group " + std::to_string(config.k_group) + ", " + counted(config.accumulators, "accumulator");
  if (config.launch_control) text += ", launch control";
  if (config.divides_k) text += ", divided along K";
  return text;
}

std::string describe_additions(const GemmConfig& config) {
  std::string text;
  if (config.adds_c && config.c != companion_of(config.d)) text += std::string(" of ") + name_of(config.c);
  if (config.gathers_c) text += " at any pitch";
  if (config.bias != DataType::f32) text += std::string(", bias of ") + name_of(config.bias);
  if (config.device_factors) text += ", factors in device memory";
  return text;
}

const char* why_not_exchanged(const GemmProblem& problem) {
  if (problem.groups.exist()) return "A and B of groups cannot be exchanged: rows of D would be columns of the sums.";
  if (problem.fusion.activation == GemmActivation::gated_silu) {
    return "A and B cannot be exchanged with a gated activation: the two columns of which it makes one would be rows "
           "of the sums, in registers of different threads.";
  }
  if (is_blockwise(problem.a.type) || is_block_scaled(problem.d.type)) {
    return "where A and B are exchanged, they must not be of fp8-blockwise, because their scales differ, and D must "
           "not be block-scaled, because its blocks are along rows.";
  }
  return nullptr;
}

GemmProblem exchanged(const GemmProblem& problem) {
  GemmProblem transposed = problem;
  std::swap(transposed.m, transposed.n);
  std::swap(transposed.a, transposed.b);
  return transposed;
}

GemmConfig derive_config(const GemmProblem& wanted, const GemmRequest& request) {
  const bool swaps = request.swap.value_or(false);
  const GemmProblem problem = swaps ? exchanged(wanted) : wanted;
  GemmConfig config = computing(problem, {.transposes_d = swaps});
  config.k_group = request.k_group.value_or(1);
  config.fallback_m = request.fallback_m;
  config.fallback_n = request.fallback_n;
  config.launch_control = request.schedule == GemmSchedule::launch_control;
  config.divides_k = divides(request);
  config.cta_group = request.cta_group.value_or(request.tile_m == 256 ? 2 : 1);
  config.cluster_m = request.cluster_m.value_or(config.cta_group);
  config.cluster_n = request.cluster_n.value_or(1);
  config.tile_m = request.tile_m.value_or(128 * config.cta_group);
  config.tile_n = request.tile_n ? *request.tile_n : usual_tile_n(config, problem.n);
  const int columns = is_block_scaled(config.a) ? kTmemColumns / 2 : kTmemColumns;  // the rest is for scale factors
  const int wanted_accumulators = is_blockwise(config.a) ? 4 : 2;                   // which has one for each k-tile
  config.accumulators =
      request.accumulators.value_or(std::clamp(columns / std::max(config.tile_n, 1), 1, wanted_accumulators));
  return config;
}

GemmExpected<GemmChoice> choose_kernel(std::span<const GemmConfig> candidates, const GemmProblem& problem,
                                       const GemmRequest& request, int blocks) {
  std::vector<Ranked> ranked;
  std::set<std::string> others;  // what there is for the problem, where nothing meets the request
  const GemmProblem transposed = exchanged(problem);
  for (size_t i = 0; i < candidates.size(); ++i) {
    const GemmConfig& config = candidates[i];
    const GemmProblem& seen = config.transposes_d ? transposed : problem;
    if (!computes(config, seen) || !stores_both(config, problem)) continue;
    others.insert(options_of(config));
    if (meets(config, problem, request)) ranked.push_back({estimate(config, seen, blocks, request), i});
  }
  if (ranked.empty()) {
    const GemmConfig derived = derive_config(problem, request);
    if (const char* const reason = why_illegal(derived)) {
      return GemmError{GemmFailure::bad_configuration, std::string(reason) + "."};
    }
    if (!stores_both(derived, problem)) {
      const int64_t multiple = 128 / bits_of(problem.d.type);
      return GemmError{GemmFailure::bad_problem,
                       "the pitch of D, " + std::to_string(problem.d.pitch) + " " + name_of(problem.d.type) +
                           " elements, and its batch stride must be multiples of " + std::to_string(multiple) +
                           " with a second output: TMA stores both, row by row from a 16-byte boundary. Pad it to " +
                           std::to_string(padded_to(multiple, problem.d.pitch)) + "."};
    }
    std::string message = "no kernel was compiled for " + operands_of(computing(problem));
    if (const std::string requested = options_of(request); !requested.empty()) message += " and " + requested;
    const bool is_known = !others.empty();
    if (!is_known) others = operands_of_kernels(candidates, problem);
    message += others.empty() ? "." : is_known ? ". There are:" : ". There are kernels for:";
    for (const std::string& other : others) message += "\n  " + other;
    return GemmError{GemmFailure::no_kernel, message + "\nA GemmCompiler compiles others while the program runs."};
  }
  const int64_t fewest =
      std::ranges::min(ranked, {}, [](const Ranked& candidate) { return candidate.found.mma_cycles; }).found.mma_cycles;
  std::ranges::stable_sort(ranked, {}, [&](const Ranked& candidate) {
    const auto& [tiles, rounds, cycles, bytes] = candidate.found;
    return is_close(cycles, fewest) ? std::tuple(false, bytes, cycles) : std::tuple(true, cycles, bytes);
  });
  const int64_t close = std::ranges::count_if(
      ranked, [&](const Ranked& candidate) { return is_close(candidate.found.mma_cycles, fewest); });

  GemmChoice choice{.index = ranked.front().index, .reasons = {}};
  const GemmConfig& best = candidates[choice.index];
  const std::string requested = options_of(request);
  choice.reasons.push_back(std::to_string(ranked.size()) + " of " + counted(std::ssize(candidates), "kernel") +
                           (ranked.size() == 1 ? " computes " : " compute ") + operands_of(computing(problem)) +
                           (requested.empty() ? "" : ", as requested with " + requested) + ", on " +
                           std::to_string(blocks) + " blocks at a time:");
  constexpr size_t kShown = 4;
  for (size_t i = 0; i < std::min(kShown, ranked.size()); ++i) {
    choice.reasons.push_back("  " + options_of(candidates[ranked[i].index]) + ": " + in_words(ranked[i].found));
  }
  if (ranked.size() > kShown) {
    choice.reasons.push_back("  and " + std::to_string(ranked.size() - kShown) + " with more cycles or more bytes");
  }
  choice.reasons.push_back("chosen: " + options_of(best) + ", because " + reason(candidates, ranked, close) + ".");
  if (best.transposes_d && !request.swap) {
    choice.reasons.push_back("A and B are exchanged, because D has only " + counted(problem.m, "row") +
                             ": a tile has 64 or more rows, but as few as 16 columns.");
  }
  return choice;
}

}  // namespace stagecraft
