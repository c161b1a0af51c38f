#include "stagecraft/gemm/chooser.hpp"

#include <algorithm>
#include <cstdio>
#include <set>
#include <tuple>

namespace stagecraft {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

GemmEpilogue epilogue_for(const GemmFusion& fusion) {
  if (fusion.activation == GemmActivation::gated_silu) return GemmEpilogue::gated;
  return fusion.is_plain() ? GemmEpilogue::plain : GemmEpilogue::full;
}

bool computes(const GemmConfig& config, const GemmProblem& problem) {
  return config.a == problem.a.type && config.b == problem.b.type && config.d == problem.d.type &&
         config.a_major == problem.a.major && config.b_major == problem.b.major &&
         config.epilogue == epilogue_for(problem.fusion) && config.adds_c == problem.fusion.c &&
         config.groups == problem.groups.exist();
}

bool divides(const GemmRequest& request) { return request.split_k > 1 || request.stream_k; }

bool meets(const GemmConfig& config, const GemmRequest& request) {
  const auto is = [](const std::optional<int>& wanted, int value) { return wanted.value_or(value) == value; };
  return is(request.tile_m, config.tile_m) && is(request.tile_n, config.tile_n) &&
         is(request.k_group, config.k_group) && is(request.accumulators, config.accumulators) &&
         is(request.cta_group, config.cta_group) && is(request.cluster_m, config.cluster_m) &&
         is(request.cluster_n, config.cluster_n) && request.fallback_m == config.fallback_m &&
         request.fallback_n == config.fallback_n && config.divides_k == divides(request) &&
         config.transposes_d == request.swap.value_or(false) &&
         config.launch_control == (request.schedule == GemmSchedule::launch_control);
}

std::string contiguous_along(char operand, Major major) {
  return std::string(1, operand) + " contiguous along " + (major == Major::k ? "K" : operand == 'A' ? "M" : "N");
}

std::string in_words(GemmEpilogue epilogue, bool adds_c) {
  const std::string c = adds_c ? " and C" : "";
  switch (epilogue) {
    case GemmEpilogue::plain: return "";
    case GemmEpilogue::full: return ", with an epilogue" + c;
    case GemmEpilogue::gated: return ", with a gated activation" + c;
  }
  return "";
}

/// "bf16 x bf16 -> bf16 with A contiguous along K and B contiguous along K"
std::string operands_of(const GemmProblem& problem) {
  return std::string(name_of(problem.a.type)) + " x " + name_of(problem.b.type) + " -> " + name_of(problem.d.type) +
         " with " + contiguous_along('A', problem.a.major) + " and " + contiguous_along('B', problem.b.major) +
         in_words(epilogue_for(problem.fusion), problem.fusion.c) + (problem.groups.exist() ? ", in groups" : "");
}

/// "tile 128x64, k-group 1, 2 accumulators"
std::string options_of(const GemmConfig& config) {
  std::string text = "tile " + std::to_string(config.tile_m) + "x" + std::to_string(config.tile_n);
  if (config.cta_group == 2) text += " of a pair";
  if (config.cluster_m * config.cluster_n > 1) {
    text += ", cluster " + std::to_string(config.cluster_m) + "x" + std::to_string(config.cluster_n);
  }
  if (config.fallback_m > 0) {
    text += " or " + std::to_string(config.fallback_m) + "x" + std::to_string(config.fallback_n);
  }
  text += ", k-group " + std::to_string(config.k_group) + ", " + std::to_string(config.accumulators) +
          (config.accumulators == 1 ? " accumulator" : " accumulators");
  if (config.launch_control) text += ", launch control";
  if (config.divides_k) text += ", divided along K";
  return text;
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
  if (request.fallback_m > 0 || request.fallback_n > 0) {
    add("fallback_m", request.fallback_m);
    add("fallback_n", request.fallback_n);
  }
  if (request.schedule == GemmSchedule::launch_control) add_text("launch control");
  if (request.split_k > 1) add_text("split_k " + std::to_string(request.split_k));
  if (request.stream_k) add_text("stream_k");
  if (request.swap.value_or(false)) add_text("A and B exchanged");
  return text;
}

std::string in_words(const GemmConfig& config, const GemmEstimate& found) {
  char text[200];
  std::snprintf(text, sizeof text, "%s: %lld tile%s of D in %lld round%s, %lld cycles of MMAs, %.0f KiB of operands",
                options_of(config).c_str(), static_cast<long long>(found.tiles), found.tiles == 1 ? "" : "s",
                static_cast<long long>(found.rounds), found.rounds == 1 ? "" : "s",
                static_cast<long long>(found.mma_cycles), static_cast<double>(found.operand_bytes) / 1024);
  return text;
}

}  // namespace

GemmEstimate estimate(const GemmConfig& config, const GemmProblem& problem, int blocks) {
  constexpr int kMmasPerKTile = 4;  // 128 bytes along K, 32 for each
  const int n = config.tile_n;
  const int64_t k_tiles = ceil_div(problem.k, tile_k_of(config.a));
  const int64_t cycles = config.cta_group == 1  ? std::max(n / 2, config.tile_m / 4 + n / 4)
                         : config.tile_m == 128 ? std::max(n / 4, 17 + n / 8)
                                                : std::max(n / 2, 36 + n / 8);
  // Clusters compute whole clusters' tiles, also beyond the edge.
  const int64_t cluster_rows = int64_t{config.cluster_m} / config.cta_group * config.tile_m;
  const int64_t clusters =
      ceil_div(problem.m, cluster_rows) * ceil_div(problem.n, int64_t{config.cluster_n} * n) * problem.batches;
  const int64_t at_a_time = std::max(1, blocks / (config.cluster_m * config.cluster_n));
  GemmEstimate result;
  result.tiles = ceil_div(problem.m, config.tile_m) * ceil_div(problem.n, n) * problem.batches;
  result.rounds = ceil_div(clusters, at_a_time);
  result.mma_cycles = result.rounds * k_tiles * kMmasPerKTile * cycles;
  result.operand_bytes = clusters * k_tiles * (cluster_rows + int64_t{config.cluster_n} * n) * 128;
  return result;
}

GemmExpected<GemmChoice> choose_kernel(std::span<const GemmConfig> candidates, const GemmProblem& problem,
                                       const GemmRequest& request, int blocks) {
  struct Ranked {
    GemmEstimate found;
    size_t index;
  };
  std::vector<Ranked> ranked;
  std::set<std::string> others;  // what there is for the problem, where nothing meets the request
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!computes(candidates[i], problem)) continue;
    others.insert(options_of(candidates[i]));
    if (meets(candidates[i], request)) ranked.push_back({estimate(candidates[i], problem, blocks), i});
  }
  if (others.empty()) {
    return GemmError{GemmFailure::no_kernel, "no kernel was compiled for " + operands_of(problem) + "."};
  }
  if (ranked.empty()) {
    std::string message =
        "no kernel was compiled for " + operands_of(problem) + " and " + options_of(request) + ". There are:";
    for (const std::string& other : others) message += "\n  " + other;
    return GemmError{GemmFailure::no_kernel, message};
  }
  std::ranges::stable_sort(ranked, {}, [](const Ranked& candidate) {
    return std::tuple(candidate.found.mma_cycles, candidate.found.operand_bytes);
  });

  GemmChoice choice{.index = ranked.front().index, .reasons = {}};
  const std::string requested = options_of(request);
  choice.reasons.push_back(std::to_string(ranked.size()) + " of " + std::to_string(candidates.size()) +
                           " kernels compute " + operands_of(problem) +
                           (requested.empty() ? "" : ", as requested with " + requested) + ", on " +
                           std::to_string(blocks) + " blocks at a time:");
  constexpr size_t kShown = 4;
  for (size_t i = 0; i < std::min(kShown, ranked.size()); ++i) {
    choice.reasons.push_back("  " + in_words(candidates[ranked[i].index], ranked[i].found));
  }
  if (ranked.size() > kShown) {
    choice.reasons.push_back("  and " + std::to_string(ranked.size() - kShown) + " with more cycles or more bytes");
  }
  const GemmConfig& best = candidates[choice.index];
  std::string why = "it is the only one";
  if (ranked.size() > 1) {
    const GemmEstimate &first = ranked[0].found, &second = ranked[1].found;
    why = first.mma_cycles < second.mma_cycles         ? "it takes the fewest cycles"
          : first.operand_bytes < second.operand_bytes ? "none takes fewer cycles, and it loads the fewest bytes"
                                                       : "no other takes fewer cycles or loads fewer bytes";
  }
  choice.reasons.push_back("chosen: " + options_of(best) + ", because " + why + ".");
  return choice;
}

}  // namespace stagecraft
