// Random problems on random kernels, each element of each result compared with the host: on those that are compiled
// into the library, and on such that nobody compiled before. The same seed draws the same problems on every machine; a
// failure prints the command that repeats it alone.
#include "harness/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <map>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "harness/device.hpp"
#include "on_demand.hpp"
#include "stagecraft/gemm/chooser.hpp"
#include "stagecraft/gemm/kernel_table.hpp"
#include "verification.hpp"

namespace stagecraft {
namespace {

constexpr int kCases = 700;
constexpr int kConfigurations = 32;

/// Draws problems: extents that are tiny, next to a multiple of the tile, or anything up to a few tiles.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  int64_t number(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_.bits() % static_cast<uint64_t>(most - least + 1));
  }
  bool one_in(int64_t n) { return number(1, n) == 1; }

  int64_t extent(int64_t tile, int64_t most) {
    switch (number(0, 3)) {
      case 0: return number(1, std::min<int64_t>(most, 20));
      case 1: return std::clamp<int64_t>(number(1, 3) * tile + number(-1, 1), 1, most);
      default: return number(1, most);
    }
  }

  template <typename Value>
  Value one_of(std::initializer_list<Value> values) {
    return values.begin()[number(0, std::ssize(values) - 1)];
  }

  /// Any configuration that is legal. What is legal is said here once more, so that a rule of rules.inc that forbids
  /// too much is found too.
  GemmConfig configuration() {
    for (;;) {
      const GemmConfig config = any_configuration();
      const int slices_of_a = config.a_major == Major::k ? config.tile_m / config.cta_group : tile_k_of(config.a);
      const int slices_of_b = config.b_major == Major::k ? config.tile_n / config.cta_group : tile_k_of(config.b);
      if (slices_of_a % (8 * config.cluster_n) == 0 && slices_of_b % (8 * config.cluster_m / config.cta_group) == 0) {
        return config;
      }
    }
  }

  /// A request that leaves out some of what a configuration is.
  GemmRequest partial(GemmRequest request) {
    const auto forget = [&](auto&... options) {
      if (one_in(2)) (options.reset(), ...);
    };
    if (request.fallback_m > 0) return request;  // it divides a cluster
    forget(request.tile_m, request.cta_group, request.cluster_m, request.cluster_n, request.k_group);
    forget(request.tile_n, request.accumulators);
    forget(request.cluster_n);
    forget(request.k_group);
    return request;
  }

  /// A problem for a kernel.
  /// @param names_kernel  the request names the kernel; else only what kind of schedule it has, and the plan chooses.
  GemmCase problem_for(const GemmConfig& config, bool names_kernel) {
    GemmCase run;
    GemmProblem& problem = run.problem;
    problem.a = {.type = config.a, .major = config.a_major};
    problem.b = {.type = config.b, .major = config.b_major};
    problem.d = {.type = config.d};
    if (config.transposes_d) std::swap(problem.a, problem.b);  // the kernel's A is the caller's B
    problem.m = config.transposes_d ? number(1, 100) : extent(config.tile_m, config.cluster_m > 2 ? 700 : 300);
    problem.n = extent(config.tile_n, config.cluster_n > 2 ? 700 : 300);
    problem.k = extent(tile_k_of(config.a) * config.k_group, one_in(8) || config.divides_k ? 2000 : 400);
    if (is_block_scaled(config.a)) problem.k += problem.k % 2;  // two elements of 4 bits share a byte
    if (one_in(3)) problem.batches = number(2, 3);
    if (config.groups) draw_groups(run);
    draw_epilogue(config, run);
    if (bits_of(config.d) == 4) {  // two elements of D share a byte
      const int64_t multiple = config.epilogue == GemmEpilogue::gated ? 4 : 2;
      problem.n = (problem.n + multiple - 1) / multiple * multiple;
    }
    if (config.gathers_c) problem.c.pitch = (problem.n + 7) / 8 * 8 + 1;
    draw_strides(problem);
    draw_request(config, names_kernel, run.request);
    run.seed = random_.bits();
    return run;
  }

 private:
  /// Legal, except that blocks may share more slices of a tile than it has.
  GemmConfig any_configuration() {
    GemmConfig config;
    config.a = config.b =
        one_of({DataType::bf16, DataType::bf16, DataType::f16, DataType::tf32, DataType::e4m3, DataType::e5m2,
                DataType::mxfp8, DataType::mxfp4, DataType::nvfp4, DataType::fp8_blockwise});
    if (config.a == DataType::e4m3 || config.a == DataType::e5m2) config.b = one_of({DataType::e4m3, DataType::e5m2});
    config.d = one_of({DataType::bf16, DataType::f16, DataType::f32, DataType::e4m3, DataType::mxfp8, DataType::mxfp4,
                       DataType::nvfp4});
    const bool is_scaled = is_block_scaled(config.a), is_promoted = is_blockwise(config.a);
    if (!is_scaled && !is_promoted) {
      config.a_major = one_of({Major::k, Major::mn});
      config.b_major = one_of({Major::k, Major::mn});
    }
    draw_place(config);
    const bool scales_d = is_block_scaled(config.d);
    config.tile_m = is_scaled ? 128 * config.cta_group : one_of({64, 128}) * config.cta_group;
    // Lines of tf32 along N have 32 elements, blocks of D's scale factors as many; atoms of scale factors have halves.
    const int columns = is_scaled || scales_d                                       ? 64
                        : config.a == DataType::tf32 && config.b_major == Major::mn ? 32 * config.cta_group
                                                                                    : 16 * config.cta_group;
    config.tile_n = static_cast<int>(number(1, 256 / columns)) * columns;
    if (is_promoted) config.tile_n = scales_d ? one_of({64, 128}) : one_of({16, 32, 64}) * config.cta_group;
    // Tensor memory holds the scale factors of all stages, too: 32 columns and more for a k-tile of nvfp4.
    const int most = config.a == DataType::nvfp4 ? 192 : is_scaled ? 256 : 512;
    config.accumulators = static_cast<int>(number(1, std::clamp(most / config.tile_n, 1, 4)));

    config.launch_control = one_in(3);
    config.divides_k = one_in(3);
    if (one_in(2)) {
      config.epilogue = one_of({GemmEpilogue::full, GemmEpilogue::full, GemmEpilogue::gated});
      config.adds_c = one_in(2);
      config.bias = one_of({DataType::f32, DataType::f32, DataType::bf16, DataType::f16});
      config.device_factors = one_in(4);
    }
    if (!scales_d) {
      config.groups = one_in(5);
      config.transposes_d = one_in(6) && !config.groups && !is_promoted && config.epilogue != GemmEpilogue::gated;
    }
    if (config.adds_c) {
      config.c = one_of({DataType::bf16, DataType::f16, bits_of(config.d) <= 8 ? DataType::bf16 : DataType::f32});
      config.gathers_c = !config.transposes_d && one_in(4);
    }
    if (config.epilogue == GemmEpilogue::gated && config.tile_n * bits_of(config.d) % (scales_d ? 1024 : 256) != 0) {
      config.epilogue = GemmEpilogue::full;
    }
    // The epilogue has two buffers each of D, of the second output and of C, of 16 KiB; of C of a D of few bits, more.
    const int rows = config.tile_m / config.cta_group + (is_scaled ? config.tile_n : config.tile_n / config.cta_group);
    const int left = config.epilogue == GemmEpilogue::plain                      ? 170 * 1024
                     : copies_c(config) && bits_of(config.c) > bits_of(config.d) ? 60 * 1024
                                                                                 : 120 * 1024;
    const int tiles = left / (rows * (is_scaled ? 160 : 128));  // with their scale factors
    config.k_group = one_in(2) ? 1 : static_cast<int>(number(1, std::clamp(tiles, 1, 8)));
    if (one_in(3)) config.stages = static_cast<int>(number(1, std::clamp(tiles / config.k_group, 1, 4)));
    return config;
  }

  /// Pairs and clusters, and what takes their place where they do not fit.
  void draw_place(GemmConfig& config) {
    config.cta_group = one_of({1, 2});
    config.cluster_m = one_of({1, 1, 2, 3, 4}) * config.cta_group;
    config.cluster_n = one_of({1, 1, 2, 4, 8});
    if (config.cluster_m * config.cluster_n > 16) config.cluster_n = 1;
    if (config.cluster_m * config.cluster_n > config.cta_group && one_in(4)) {
      config.fallback_m = config.cta_group;
      config.fallback_n = one_in(2) && config.cluster_m > config.cta_group ? config.cluster_n : 1;
    }
  }

  float factor() { return static_cast<float>(number(1, 40)) / (one_in(2) ? 16 : -16); }

  /// Groups in place of a batch, some of them empty, or a single row, or all rows.
  void draw_groups(GemmCase& run) {
    GemmProblem& problem = run.problem;
    problem.batches = 1;
    std::vector<int> rows(number(1, 6));
    for (int& of_group : rows) of_group = one_in(3) ? static_cast<int>(number(0, 1)) : static_cast<int>(number(1, 300));
    if (one_in(2)) {
      problem.groups.masked = std::ssize(rows);
      problem.m = std::max(1, *std::ranges::max_element(rows));
      run.group_rows = rows;
    } else {
      rows.front() += 1;                   // M is at least 1
      if (problem.a.major == Major::mn) {  // groups begin on 16-byte boundaries
        const int words = 128 / bits_of(problem.a.type);
        for (int& of_group : rows) of_group = (of_group + words - 1) / words * words;
        rows.back() -= static_cast<int>(number(0, std::min(rows.back(), words - 1)));
        rows.front() = std::max(rows.front(), 1);
      }
      problem.groups.rows.assign(rows.begin(), rows.end());
      problem.m = std::accumulate(rows.begin(), rows.end(), int64_t{0});
    }
  }

  void draw_epilogue(const GemmConfig& config, GemmCase& run) {
    GemmFusion& fusion = run.problem.fusion;
    if (one_in(2)) run.alpha = factor();
    if (config.epilogue == GemmEpilogue::plain) return;
    fusion = {.c = config.adds_c,
              .bias = one_in(2) || config.bias != DataType::f32,
              .row_scales = one_in(3),
              .column_scales = one_in(3),
              .activation = static_cast<GemmActivation>(number(0, 4)),
              .second_output = one_in(3),
              .absolute_maximum = one_in(3),
              .scale = one_in(2),
              .bias_type = config.bias,
              .device_factors = config.device_factors};
    if (config.adds_c) run.problem.c.type = config.c;
    if (config.epilogue == GemmEpilogue::gated) {
      fusion.activation = GemmActivation::gated_silu;
      run.problem.n += run.problem.n % 2;
    } else if (fusion.is_plain()) {
      fusion.bias = true;
    }
    if (fusion.c) run.beta = one_in(4) ? 0 : factor();
    if (fusion.scale) run.scale = factor();
  }

  void draw_strides(GemmProblem& problem) {
    problem = with_strides(problem);
    const auto widen = [&](auto& matrix, int64_t multiple) {  // a gap after each line, or after each matrix
      if (one_in(4)) {
        const int64_t lines = matrix.batch_stride / matrix.pitch;
        matrix.pitch += number(1, 5) * multiple;
        matrix.batch_stride = lines * matrix.pitch;
      }
      if (one_in(4)) matrix.batch_stride += number(1, 50) * multiple;
    };
    widen(problem.a, 128 / bits_of(problem.a.type));
    widen(problem.b, 128 / bits_of(problem.b.type));
    const int64_t words = 128 / bits_of(problem.d.type);
    if (one_in(2)) {  // TMA can store D; otherwise it can by chance
      problem.d.pitch = (problem.d.pitch + words - 1) / words * words;
      problem.d.batch_stride = problem.m * problem.d.pitch;
    }
    widen(problem.d, problem.fusion.second_output || is_block_scaled(problem.d.type) ? words : 1);
  }

  void draw_request(const GemmConfig& config, bool names_kernel, GemmRequest& request) {
    if (names_kernel) {
      request = {.tile_m = config.tile_m,
                 .tile_n = config.tile_n,
                 .k_group = config.k_group,
                 .accumulators = config.accumulators,
                 .cta_group = config.cta_group,
                 .cluster_m = config.cluster_m,
                 .cluster_n = config.cluster_n};
    }
    request.fallback_m = config.fallback_m;
    request.fallback_n = config.fallback_n;
    if (config.transposes_d) request.swap = true;
    if (config.launch_control) {
      request.schedule = GemmSchedule::launch_control;
    } else if (one_in(2)) {
      request.schedule = one_in(2) ? GemmSchedule::one_tile : GemmSchedule::persistent;
    }
    if (config.divides_k) {
      request.stream_k = one_in(2) && request.schedule != GemmSchedule::one_tile;
      if (config.groups) request.stream_k = false;
      if (!request.stream_k) request.split_k = static_cast<int>(number(2, 6));
    }
    request.raster = {.order = one_in(2) ? RasterOrder::along_m : RasterOrder::along_n,
                      .width = static_cast<uint32_t>(number(1, 4))};
    if (one_in(2)) request.blocks = static_cast<int>(number(1, 40));  // several tiles for each block
    request.dependent = one_in(4);
  }

  harness::Random random_;
};

uint64_t environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(RandomGemms, AgreeWithTheHostInEveryElement) {
  const std::string reason = harness::reason_without_tcgen05(harness::current_device());
  if (!reason.empty()) GTEST_SKIP() << reason;
  const uint64_t seed = environment("STAGECRAFT_GEMM_SEED", 13);
  const size_t cases = environment("STAGECRAFT_GEMM_CASES", kCases);
  Draw draw(seed);
  const auto kernels = shipped_gemms();
  std::map<std::string, int> runs_of_kernel;
  size_t elements = 0;
  for (size_t i = 0; i < cases; ++i) {
    const bool names_kernel = i < kernels.size() || !draw.one_in(4);
    const size_t kernel = cases < kernels.size() ? i * kernels.size() / cases : i % kernels.size();
    const GemmCase run = draw.problem_for(kernels[kernel]->config, names_kernel);
    SCOPED_TRACE("case " + std::to_string(i) + " of STAGECRAFT_GEMM_SEED=" + std::to_string(seed) + ": " +
                 command_of(run));
    try {
      const auto plan = GemmPlan::choose(run.problem, run.request);
      ASSERT_TRUE(plan) << plan.error().message;
      ++runs_of_kernel[describe(plan->config())];
      const GemmVerdict verdict = verify(run, *plan);
      ASSERT_EQ(verdict.wrong, 0u) << verdict.worst;
      elements += verdict.elements;
    } catch (const std::exception& error) {
      FAIL() << error.what();
    }
  }
  if (cases >= kernels.size()) {
    EXPECT_EQ(runs_of_kernel.size(), kernels.size()) << "a kernel was never run";
  }
  std::printf("%zu problems on %zu kernels, %zu elements compared\n", cases, runs_of_kernel.size(), elements);
}

/// Compiles kernels for configurations. Where that fails, halves show which of them it is.
std::vector<const GemmKernel*> compiled(const GemmCompiler& compiler, std::span<const GemmConfig> configs) {
  const auto together = compiler.compile(configs);
  if (together) return together->kernels;
  if (configs.size() == 1) throw std::runtime_error(describe(configs.front()) + ": " + together.error().message);
  compiled(compiler, configs.first(configs.size() / 2));
  compiled(compiler, configs.subspan(configs.size() / 2));
  throw std::runtime_error(together.error().message);
}

// Each configuration is drawn, or derived from a request that says less; then it is compiled, and runs two problems.
TEST(RandomConfigurations, AgreeWithTheHostInEveryElement) {
  const std::string reason = harness::reason_without_tcgen05(harness::current_device());
  if (!reason.empty()) GTEST_SKIP() << reason;
  const uint64_t seed = environment("STAGECRAFT_GEMM_SEED", 29);
  const size_t count = environment("STAGECRAFT_GEMM_CONFIGURATIONS", kConfigurations);
  constexpr size_t kTogether = 32;  // in one source, because most of the time goes into the headers
  const GemmCompiler compiler = gemm_compiler();
  Draw draw(seed);
  size_t elements = 0;
  for (size_t done = 0; done < count; done += kTogether) {
    std::vector<GemmConfig> configs;
    for (size_t i = 0; i < std::min(kTogether, count - done); ++i) {
      GemmConfig config = draw.configuration();
      if (draw.one_in(3)) {
        const GemmCase example = draw.problem_for(config, /*names_kernel=*/true);
        config = derive_config(example.problem, draw.partial(example.request));
      }
      configs.push_back(config);
    }
    const std::vector<const GemmKernel*> kernels = compiled(compiler, configs);
    for (const GemmKernel* const& kernel : kernels) {
      for (int repeat = 0; repeat < 2; ++repeat) {
        const GemmCase run = draw.problem_for(kernel->config, /*names_kernel=*/true);
        const std::string stages = std::to_string(kernel->config.stages);
        SCOPED_TRACE("configuration " + std::to_string(done + (&kernel - kernels.data())) +
                     " of STAGECRAFT_GEMM_SEED=" + std::to_string(seed) + ", with stages = " + stages + ": " +
                     command_of(run));
        GemmConfig derived = derive_config(run.problem, run.request);
        derived.stages = kernel->config.stages;  // which no request names
        EXPECT_EQ(describe(derived), describe(kernel->config));
        try {
          const auto plan = GemmPlan::choose(run.problem, run.request, {&kernel, 1});
          ASSERT_TRUE(plan) << plan.error().message;
          const GemmVerdict verdict = verify(run, *plan);
          EXPECT_EQ(verdict.wrong, 0u) << verdict.worst;
          elements += verdict.elements;
        } catch (const std::exception& error) {
          ADD_FAILURE() << error.what();
        }
      }
    }
  }
  std::printf("%zu configurations, %zu elements compared\n", count, elements);
}

}  // namespace
}  // namespace stagecraft
