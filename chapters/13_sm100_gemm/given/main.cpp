// The complete GEMM on the command line: random matrices, a plan, a run, and every element checked against the host.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "harness/command_line.hpp"
#include "harness/device.hpp"
#include "harness/options.hpp"
#include "on_demand.hpp"
#include "stagecraft/gemm/chooser.hpp"
#include "stagecraft/gemm/kernel_table.hpp"
#include "stagecraft/gemm/kernels/configurations.hpp"
#include "verification.hpp"

namespace {

using namespace stagecraft;
using harness::parse_number;
constexpr int kNotVerified = 1;
constexpr int kBadOptions = 2;

/// What the user wrote.
struct Options {
  std::string type = "bf16", d_type, layout = "tn";
  std::string m, n = "512", k = "512", batches = "1", lda = "0", ldb = "0", ldd = "0";
  std::string alpha = "1", beta = "0", scale, activation = "none";
  std::string bias_type = "f32", addend_type, addend_pitch = "0";
  bool device_factors = false;
  bool bias = false, row_scales = false, column_scales = false, second_output = false, absolute_maximum = false;
  std::string tile, cluster, fallback, cta_group, k_group, accumulators, schedule, split_k = "1", raster = "m",
                                                                                   swizzle = "1";
  bool stream_k = false, swap = false, no_swap = false, dependent = false;
  std::string groups;
  bool masked = false;
  std::string blocks = "0", seed = "1";
  bool explain = false, list = false;
};

std::optional<DataType> find_type(const std::string& text) {
  for (const DataType type :
       {DataType::bf16, DataType::f16, DataType::tf32, DataType::e4m3, DataType::e5m2, DataType::f32, DataType::mxfp8,
        DataType::mxfp4, DataType::nvfp4, DataType::fp8_blockwise}) {
    if (text == name_of(type)) return type;
  }
  return std::nullopt;
}

/// "e4m3" or "e4m3xe5m2".
void parse_operand_types(const std::string& text, GemmProblem& problem) {
  auto a = find_type(text), b = a;
  if (const size_t cross = text.find('x'); !a && cross != std::string::npos) {
    a = find_type(text.substr(0, cross));
    b = find_type(text.substr(cross + 1));
  }
  if (!a || !b) {
    throw std::invalid_argument("--type = \"" + text +
                                "\" is unknown. Legal are bf16, f16, tf32, e4m3 and e5m2, e4m3xe5m2 and e5m2xe4m3 for "
                                "A and B of different types, and mxfp8, mxfp4, nvfp4 and fp8-blockwise, which have "
                                "scale factors.");
  }
  problem.a.type = *a;
  problem.b.type = *b;
}

/// @param legal  those that the plan accepts.
DataType parse_type(const char* name, const std::string& text, const char* legal) {
  if (const auto type = find_type(text)) return *type;
  throw std::invalid_argument(std::string(name) + " = \"" + text + "\" is unknown. Legal are " + legal + ".");
}

void parse_layout(const std::string& text, GemmProblem& problem) {
  if (text.size() != 2 || text.find_first_not_of("tn") != std::string::npos) {
    throw std::invalid_argument("--layout = \"" + text +
                                "\" is unknown. Legal are tn (A and B contiguous along K), nn (A along M), tt (B along "
                                "N) and nt (A along M, B along N).");
  }
  problem.a.major = text[0] == 't' ? Major::k : Major::mn;
  problem.b.major = text[1] == 'n' ? Major::k : Major::mn;
}

int small_number(const char* name, const std::string& text) {
  return static_cast<int>(parse_number(name, text, 1, 100000));
}

/// "128x64"
void parse_pair(const char* name, const std::string& text, std::optional<int>& first, std::optional<int>& second) {
  if (text.empty()) return;
  const size_t cross = text.find('x');
  if (cross == std::string::npos) {
    throw std::invalid_argument(std::string(name) + " = \"" + text + "\" is not two numbers, such as 4x2.");
  }
  first = small_number(name, text.substr(0, cross));
  second = small_number(name, text.substr(cross + 1));
}

/// One of several values by its name.
template <typename Value, size_t Size>
Value parse_name(const char* option, const std::string& text, const Value (&values)[Size]) {
  std::string legal;
  for (const Value value : values) {
    if (text == name_of(value)) return value;
    legal += (legal.empty() ? "" : ", ") + std::string(name_of(value));
  }
  throw std::invalid_argument(std::string(option) + " = \"" + text + "\" is unknown. Legal are " + legal + ".");
}

float parse_real(const char* name, const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const float value = std::strtof(text.c_str(), &end);
  const bool is_number = !text.empty() && end == text.c_str() + text.size() && std::isfinite(value);
  if (is_number && !(errno == ERANGE && value == 0)) return value;
  throw std::invalid_argument(
      std::string(name) + " = \"" + text + "\" is " +
      (is_number ? "too small for type float, in which it would be 0." : "not a finite number of type float."));
}

/// "5,0,130,7": contiguous groups are all of M, masked ones have M rows each, of which so many count.
void parse_groups(const Options& options, GemmCase& run) {
  std::vector<int> rows;
  for (const std::string& number : harness::split(options.groups)) {
    rows.push_back(static_cast<int>(parse_number("--groups", number, 0, kLargestGemmExtent)));
  }
  if (rows.empty()) return;
  GemmProblem& problem = run.problem;
  if (options.masked) {
    problem.groups.masked = std::ssize(rows);
    const int most = *std::ranges::max_element(rows);
    if (options.m.empty()) problem.m = std::max(1, most);
    if (problem.m < most) {
      throw std::invalid_argument("a masked group has " + std::to_string(most) +
                                  " rows, and M = " + std::to_string(problem.m) + ": M is the most that one may have.");
    }
    run.group_rows = rows;
  } else {
    problem.groups.rows.assign(rows.begin(), rows.end());
    if (options.m.empty()) problem.m = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  }
}

GemmCase read(const Options& options) {
  GemmCase run;
  GemmProblem& problem = run.problem;
  const auto extent = [](const char* name, const std::string& text, int64_t most = kLargestGemmExtent) {
    return static_cast<int64_t>(parse_number(name, text, 1, most));
  };
  const auto pitch = [](const char* name, const std::string& text) {
    return static_cast<int64_t>(parse_number(name, text, 0, (int64_t{1} << 40) - 1));  // the plan says what is legal
  };
  parse_operand_types(options.type, problem);
  parse_layout(options.layout, problem);
  problem.d.type = options.d_type.empty()
                       ? usual_result(problem.a.type)
                       : parse_type("--c-type", options.d_type, "f32, bf16, f16, e4m3, mxfp8, mxfp4 and nvfp4");
  problem.m = options.m.empty() ? 512 : extent("M", options.m);
  problem.n = extent("N", options.n);
  problem.k = extent("K", options.k);
  problem.batches = extent("--batch", options.batches, 65535);
  problem.a.pitch = pitch("--lda", options.lda);
  problem.b.pitch = pitch("--ldb", options.ldb);
  problem.d.pitch = pitch("--ldc", options.ldd);
  GemmFusion& fusion = problem.fusion;
  run.alpha = parse_real("--alpha", options.alpha);
  run.beta = parse_real("--beta", options.beta);
  if (!options.scale.empty()) run.scale = parse_real("--scale", options.scale);
  fusion = {.c = run.beta != 0,
            .bias = options.bias,
            .row_scales = options.row_scales,
            .column_scales = options.column_scales,
            .activation = parse_name("--activation", options.activation,
                                     {GemmActivation::none, GemmActivation::relu, GemmActivation::gelu,
                                      GemmActivation::gelu_tanh, GemmActivation::silu, GemmActivation::gated_silu}),
            .second_output = options.second_output,
            .absolute_maximum = options.absolute_maximum,
            .scale = !options.scale.empty(),
            .bias_type = parse_type("--bias-type", options.bias_type, "f32, bf16 and f16"),
            .device_factors = options.device_factors};
  if (!options.addend_type.empty()) {
    problem.c.type = parse_type("--addend-type", options.addend_type, "f32, bf16 and f16");
  }
  problem.c.pitch = pitch("--addend-pitch", options.addend_pitch);

  GemmRequest& request = run.request;
  parse_pair("--tile", options.tile, request.tile_m, request.tile_n);
  parse_pair("--cluster", options.cluster, request.cluster_m, request.cluster_n);
  std::optional<int> fallback_m, fallback_n;
  parse_pair("--fallback", options.fallback, fallback_m, fallback_n);
  request.fallback_m = fallback_m.value_or(0);
  request.fallback_n = fallback_n.value_or(0);
  const auto number = [](const char* name, const std::string& text, std::optional<int>& value) {
    if (!text.empty()) value = small_number(name, text);
  };
  number("--cta-group", options.cta_group, request.cta_group);
  number("--k-group", options.k_group, request.k_group);
  number("--accumulators", options.accumulators, request.accumulators);
  if (!options.schedule.empty()) {
    request.schedule = parse_name("--schedule", options.schedule,
                                  {GemmSchedule::one_tile, GemmSchedule::persistent, GemmSchedule::launch_control});
  }
  request.split_k = small_number("--split-k", options.split_k);
  request.stream_k = options.stream_k;
  request.dependent = options.dependent;
  if (options.swap || options.no_swap) request.swap = options.swap;
  parse_groups(options, run);
  request.blocks = static_cast<int>(parse_number("--blocks", options.blocks, 0, 1 << 20));
  if (options.raster != "m" && options.raster != "n") {
    throw std::invalid_argument("--raster = \"" + options.raster + "\" is unknown. Legal are m and n.");
  }
  request.raster = {.order = options.raster == "m" ? RasterOrder::along_m : RasterOrder::along_n,
                    .width = static_cast<uint32_t>(small_number("--swizzle", options.swizzle))};
  run.seed = parse_number("--seed", options.seed, 0, UINT64_MAX);
  return run;
}

/// A message about members of GemmRequest and GemmConfig, in the words of the options that name them.
std::string in_words_of_options(std::string message, const Options& options) {
  constexpr std::pair<const char*, const char*> kWords[] = {
      {"the pitch of A", "--lda, the pitch of A"},
      {"the pitch of B", "--ldb, the pitch of B"},
      {"the pitch of C", "--addend-pitch, the pitch of C"},
      {"the pitch of D", "--ldc, the pitch of D"},
      {"tile_m", "M of --tile"},
      {"tile_n", "N of --tile"},
      {"cluster_m", "M of --cluster"},
      {"cluster_n", "N of --cluster"},
      {"fallback_m", "M of --fallback"},
      {"fallback_n", "N of --fallback"},
      {"cta_group", "--cta-group"},
      {"k_group", "--k-group"},
      {"split_k", "--split-k"},
      {"stream_k", "--stream-k"},
      {"fusion.bias_type", "--bias-type"},
      {"groups.masked", "the number of --groups"},
      {"the number of groups", "the number of --groups"},
      {"accumulators must", "--accumulators must"},
      {"accumulators *", "--accumulators *"},
  };
  for (const auto& [member, option] : kWords) {
    for (size_t at = 0; (at = message.find(member, at)) != std::string::npos; at += std::strlen(option)) {
      message.replace(at, std::strlen(member), option);
    }
  }
  // Where an option is named first, with what was given.
  const std::pair<std::string, const std::string&> given[] = {
      {" of --tile", options.tile}, {" of --cluster", options.cluster}, {" of --fallback", options.fallback}};
  for (const auto& [option, value] : given) {
    const size_t at = message.find(option);
    if (at != std::string::npos && !value.empty()) message.insert(at + option.size(), " " + value);
  }
  return message;
}

/// A plan, and why its kernel is the one.
struct Choice {
  GemmPlan plan;
  std::vector<std::string> reasons;
};

/// What to compile for a problem that no compiled kernel computes as requested: the configuration that is chosen among
/// those of the shipped kernels, where this program has none, and else what the request names.
GemmConfig config_to_compile(const GemmProblem& problem, const GemmRequest& request, const cudaDeviceProp& device,
                             std::vector<std::string>& reasons) {
  const int blocks = request.blocks > 0 ? request.blocks : device.multiProcessorCount;
  const GemmExpected<GemmChoice> listed = choose_kernel(shipped::kAll, problem, request, blocks);
  if (!listed) return derive_config(problem, request);
  reasons = listed->reasons;
  return shipped::kAll[listed->index];
}

/// Chooses one of the compiled kernels, or compiles one where none computes the problem as requested.
Choice choose(const GemmProblem& problem, const GemmRequest& request, const cudaDeviceProp& device) {
  auto plan = GemmPlan::choose(problem, request, shipped_gemms());
  std::vector<std::string> reasons;
  if (!plan && plan.error().failure == GemmFailure::no_kernel) {
    const GemmConfig config = config_to_compile(problem, request, device, reasons);
    std::fprintf(stderr, "gemm: %s%s",
                 shipped_gemms().empty() ? "" : "no compiled kernel is as requested: ", describe(config).c_str());
    const auto compiled = gemm_compiler().compile({&config, 1});
    if (!compiled) {
      std::fprintf(stderr, "\n");
      const bool has_nvcc = compiled.error().failure != GemmFailure::no_compiler;
      throw std::invalid_argument(compiled.error().message + (has_nvcc ? "" : "\n" + plan.error().message));
    }
    if (compiled->seconds > 0) {
      std::fprintf(stderr, ": compiled in %.1f s\n", compiled->seconds);
    } else {
      std::fprintf(stderr, ": kept from an earlier run\n");
    }
    plan = GemmPlan::choose(problem, request, compiled->kernels);
  }
  if (!plan) throw std::invalid_argument(plan.error().message);
  return {*plan, reasons.empty() ? plan->reasons() : reasons};
}

int run(const Options& options) {
  if (options.list) {
    for (const GemmConfig& config : shipped::kAll) std::printf("%s\n", describe(config).c_str());
    return 0;
  }
  const GemmCase run = read(options);
  const cudaDeviceProp device = harness::current_device();
  harness::require_tcgen05(device);
  const auto [plan, reasons] = choose(with_strides(run.problem), run.request, device);
  if (options.explain) {
    for (const std::string& reason : reasons) std::printf("%s\n", reason.c_str());
    std::printf("kernel: %s\n", plan.description().c_str());
  }
  const GemmVerdict verdict = verify(run, plan);
  if (verdict.wrong > 0) {
    std::printf("gemm %s on %s: WRONG in %zu of %zu elements; the worst: %s (seed %llu)\n%s",
                describe(run.problem).c_str(), device.name, verdict.wrong, verdict.elements, verdict.worst.c_str(),
                static_cast<unsigned long long>(run.seed), verdict.mistake.c_str());
    return kNotVerified;
  }
  std::printf("gemm %s on %s: verified, max relative error %.1e, %.2f s\n", describe(run.problem).c_str(), device.name,
              verdict.max_relative_error, verdict.seconds);
  return 0;
}

/// The status, or that of an error where what was printed cannot be written.
int written(int status) {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout) return status;
  std::fprintf(stderr, "gemm: the output cannot be written: %s\n", std::strerror(errno));
  return kNotVerified;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{
      "Computes D = scale * activation(row scales * column scales * alpha * A * B transposed + beta * C + bias) on "
      "random matrices, where A is M x K, B is N x K, C and D are M x N, and checks every element.",
      "gemm"};
  const auto text = [&](const char* name, std::string& value, const char* type, const char* what) {
    app.add_option(name, value, what)->type_name(type)->capture_default_str()->check(harness::refuse_empty);
  };
  text("--type", options.type, "TYPE",
       "of A and B: bf16, f16, tf32, e4m3, e5m2; mxfp8, mxfp4, nvfp4; fp8-blockwise: e4m3 with f32 scales for 1x128 "
       "elements of A and 128x128 of B; e4m3xe5m2 for different ones");
  text("--c-type", options.d_type, "TYPE",
       "of the result: f32, bf16, f16, e4m3; mxfp8, mxfp4, nvfp4, with scale factors; default: as A, but bf16 for 8 "
       "bits and fewer, and f32 for tf32");
  text("--layout", options.layout, "LAYOUT",
       "tn: A and B contiguous along K; nn: A along M; tt: B along N; nt: A along M and B along N");
  text("--m", options.m, "NUMBER", "rows of A and of the result; default: 512, or what the groups have");
  text("--n", options.n, "NUMBER", "rows of B, columns of the result");
  text("--k", options.k, "NUMBER", "columns of A and B");
  text("--batch", options.batches, "NUMBER", "products, each with matrices of its own");
  text("--lda", options.lda, "NUMBER", "elements from one line of A to the next; 0: as few as are legal");
  text("--ldb", options.ldb, "NUMBER", "elements from one line of B to the next; 0: as few as are legal");
  text("--ldc", options.ldd, "NUMBER", "elements from one row of the result to the next; 0: no gap");
  text("--alpha", options.alpha, "NUMBER", "what the product is multiplied by");
  text("--beta", options.beta, "NUMBER", "what C is multiplied by; 0: there is no C");
  text("--scale", options.scale, "NUMBER", "what the result is multiplied by before it is stored");
  text("--activation", options.activation, "NAME", "none, relu, gelu, gelu-tanh, silu, gated-silu (of paired columns)");
  text("--addend-type", options.addend_type, "TYPE",
       "of C: f32, bf16, f16; default: as the result, but bf16 for 8 bits and fewer");
  text("--addend-pitch", options.addend_pitch, "NUMBER",
       "elements from one row of C to the next; 0: as few as are fast");
  app.add_flag("--device-factors", options.device_factors, "alpha, beta and scale are in device memory");
  app.add_flag("--bias", options.bias, "add a bias to each column");
  text("--bias-type", options.bias_type, "TYPE", "of the bias: f32, bf16, f16");
  app.add_flag("--row-scales", options.row_scales, "multiply each row by a scale");
  app.add_flag("--column-scales", options.column_scales, "multiply each column by a scale");
  app.add_flag("--aux", options.second_output, "store what goes into the activation, too");
  app.add_flag("--amax", options.absolute_maximum, "measure the largest magnitude that comes out of the activation");
  text("--tile", options.tile, "MxN", "rows and columns of the result that a block or a pair sums at a time");
  text("--cta-group", options.cta_group, "NUMBER", "1: each block multiplies alone; 2: pairs of blocks");
  text("--cluster", options.cluster, "MxN", "blocks of a cluster along M and N, which share tiles");
  text("--fallback", options.fallback, "MxN", "the same of smaller clusters, where the preferred one does not fit");
  text("--schedule", options.schedule, "NAME", "one-tile, persistent, clc (cluster launch control)");
  text("--split-k", options.split_k, "NUMBER", "pieces of each tile along K");
  app.add_flag("--stream-k", options.stream_k, "even shares of all k-tiles for all blocks");
  text("--raster", options.raster, "m|n", "direction in which neighbouring tiles are computed");
  text("--swizzle", options.swizzle, "NUMBER", "tiles across a panel of the raster");
  auto* const swap = app.add_flag("--swap", options.swap, "compute D transposed, as B * A transposed: for few rows");
  app.add_flag("--no-swap", options.no_swap, "do not, also where D has few rows")->excludes(swap);
  text("--groups", options.groups, "M,M,...", "rows of groups, each with a B of its own; M is their sum");
  app.add_flag("--masked", options.masked, "each group has a matrix of its own, with as many rows as the largest")
      ->needs("--groups");
  app.add_flag("--dependent", options.dependent, "launch as a programmatic dependent of the kernel before");
  text("--k-group", options.k_group, "NUMBER", "k-tiles that share a barrier");
  text("--accumulators", options.accumulators, "NUMBER", "tiles of the result in tensor memory");
  text("--blocks", options.blocks, "NUMBER", "how many share the work at most; 0: one for each multiprocessor");
  text("--seed", options.seed, "NUMBER", "of the random matrices");
  app.add_flag("--explain", options.explain, "say which kernel is chosen, and why");
  app.add_flag("--list", options.list, "name the kernels that are shipped, and compute nothing");
  app.failure_message(harness::failure_in_a_line);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? written(0) : kBadOptions;
  }

  try {
    return written(run(options));
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "gemm: %s\n", in_words_of_options(error.what(), options).c_str());
    return kBadOptions;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "gemm: out of host memory. Choose smaller sizes.\n");
    return kNotVerified;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gemm: %s\n", error.what());
    return kNotVerified;
  }
}
