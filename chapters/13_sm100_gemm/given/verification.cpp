#include "verification.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "checked_result.hpp"
#include "harness/device_buffer.hpp"
#include "harness/product_mistakes.hpp"
#include "harness/reference_product.hpp"
#include "host_matrix.hpp"
#include "reference_epilogue.hpp"
#include "stagecraft/gemm/extents.hpp"

namespace stagecraft {
namespace {

using detail::padded_to;
using harness::DeviceBuffer;

/// How many matrices of B there are, and so products.
int64_t products_of(const GemmProblem& problem) {
  const auto& groups = problem.groups;
  return groups.is_contiguous() ? std::ssize(groups.rows) : groups.masked > 0 ? groups.masked : problem.batches;
}

void pad_strides(GemmOperand& operand, int64_t rows, int64_t k) {
  const int64_t multiple = 128 / bits_of(operand.type);
  const int64_t contiguous = operand.major == Major::k ? k : rows, lines = operand.major == Major::k ? rows : k;
  if (operand.pitch == 0) operand.pitch = padded_to(multiple, contiguous);
  if (operand.batch_stride == 0) operand.batch_stride = lines * operand.pitch;
}

/// Throws when the host does not have the memory, before it allocates any.
void require_host_memory(const GemmProblem& problem) {
  const double m = problem.m, n = problem.n, k = problem.k, batches = problem.batches;
  // The values as floats and doubles, the bytes of the matrices, and the reference.
  const double needed = batches * ((m * k + n * k) * 16 + m * n * 16);
  const double present = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (needed <= present) return;
  char message[200];
  std::snprintf(message, sizeof message,
                "the matrices and the reference product need %.1f GiB of host memory, and this machine has %.1f GiB. "
                "Choose smaller sizes.",
                needed / 0x1p30, present / 0x1p30);
  throw std::invalid_argument(message);
}

/// Elements and scales of a matrix, for one of the operands that have scales.
struct HostScales {
  std::vector<double> elements, scales;  // row-major
  int block;

  /// @param values  rows x k: each the product of an element and its scale.
  /// @param bytes   the scales, as a kernel reads them.
  HostScales(DataType type, OperandName name, std::span<const double> values, std::span<const unsigned char> bytes,
             int64_t rows, int64_t k)
      : elements(values.begin(), values.end()), scales(values.size()), block(static_cast<int>(scale_block_of(type))) {
    const int64_t blocks = (k + block - 1) / block, pitch = name == OperandName::a ? padded_to(4, rows) : blocks;
    for (int64_t i = 0; i < std::ssize(scales); ++i) {
      const int64_t row = i / k, of_k = i % k / block;
      if (type == DataType::fp8_blockwise) {
        float scale = 0;
        const int64_t at = name == OperandName::a ? of_k * pitch + row : row / block * pitch + of_k;
        std::memcpy(&scale, &bytes[at * static_cast<int64_t>(sizeof scale)], sizeof scale);
        scales[i] = scale;
      } else {
        const uint8_t bits = bytes[scale_factor_offset(static_cast<uint32_t>(row), static_cast<uint32_t>(of_k),
                                                       static_cast<uint32_t>(padded_to(4, blocks)))];
        scales[i] =
            type == DataType::nvfp4 ? harness::number_of<__nv_fp8_e4m3>(bits) : harness::number_of<__nv_fp8_e8m0>(bits);
      }
      if (scales[i] != 0) elements[i] /= scales[i];
    }
  }

  harness::ScaledValues view() const { return {elements, scales, block}; }
};

/// The mistake that makes the result, or which elements are wrong, in words; empty where neither says anything.
/// @param sums  of the products, in the order of D.
std::string likely_mistake(const GemmCase& run, const GemmConfig& config, const HostOperand& host_a,
                           const HostOperand& host_b, const std::vector<double>& sums,
                           const ReferenceEpilogue& epilogue, const CheckedMatrix& result) {
  const auto& [m, n, k, wanted_batches, a, b, d, fusion, c, second, groups] = run.problem;
  const int64_t batches = products_of(run.problem);
  const bool gated = fusion.activation == GemmActivation::gated_silu;
  const int bits = std::max(bits_of(a.type), bits_of(b.type));
  // Each product for itself, until one says more.
  for (int64_t batch = 0, row_of_a = 0; batch < batches; ++batch) {
    const int64_t rows = groups.is_contiguous() ? groups.rows[batch] : groups.masked > 0 ? run.group_rows[batch] : m;
    const int64_t batch_of_a = groups.is_contiguous() ? 0 : batch, first = groups.is_contiguous() ? row_of_a : 0;
    const int64_t from = batch_of_a * m + first;  // the first of its rows, of all
    row_of_a += rows;
    if (rows == 0) continue;
    const auto bounded = [&](const harness::Guess& sum, int row, int column) {
      const auto before = [&](int of_n) {
        return epilogue.before_activation(sum(row, of_n), batch_of_a, batch, first + row, of_n);
      };
      return stored(epilogue.scaled(epilogue.activated(before(gated ? 2 * column + 1 : column),
                                                       gated ? before(2 * column) : Bounded{})),
                    d.type, 1);
    };
    const harness::Guess right = [&](int row, int column) { return sums[(from + row) * n + column]; };
    const std::vector<double> got = result.values(batch_of_a, first, rows, [](auto...) { return 1.0; });
    const std::span<const double> all_of_a(host_a.values), all_of_b(host_b.values), all_sums(sums);
    const auto of_a = all_of_a.subspan(from * k, rows * k), of_b = all_of_b.subspan(batch * n * k, n * k);
    std::optional<HostScales> scaled_a, scaled_b;
    std::optional<harness::ScaledValues> view_of_a, view_of_b;
    if (!host_a.scale_factors.empty() && !groups.exist()) {
      const auto part = [&](const HostOperand& operand) {
        const size_t bytes = operand.scale_factors.size() / batches;
        return std::span(operand.scale_factors).subspan(batch * bytes, bytes);
      };
      view_of_a = scaled_a.emplace(a.type, OperandName::a, of_a, part(host_a), rows, k).view();
      view_of_b = scaled_b.emplace(b.type, OperandName::b, of_b, part(host_b), n, k).view();
    }
    const bool swapped = config.transposes_d;
    const std::string text = harness::explain_product(
        {.shape = {.m = static_cast<int>(rows),
                   .n = static_cast<int>(n),
                   .k = static_cast<int>(k),
                   .tile_m = swapped ? config.tile_n : config.tile_m,
                   .tile_n = swapped ? config.tile_m : config.tile_n,
                   .tile_k = 1024 / bits,
                   .in_pairs = config.cta_group == 2 && !swapped,
                   .mma_k = 256 / bits,
                   .k_group = config.k_group,
                   .a_along_k = a.major == Major::k,
                   .b_along_k = b.major == Major::k,
                   .result = 'D'},
         .a = of_a,
         .b = of_b,
         .sums = all_sums.subspan(from * n, rows * n),
         .got = got,
         .allowed =
             [&](double value, int row, int column) {
               const Bounded exact = bounded(right, row, column);
               // A larger number is a larger sum's, whose error is larger.
               return exact.error * std::clamp(std::abs(value) / std::max(std::abs(exact.value), 1e-30), 1.0, 8.0);
             },
         .of_sums = [&](const harness::Guess& sum, int row, int column) { return bounded(sum, row, column).value; },
         .output_bits = d.type == DataType::f32    ? 24
                        : d.type == DataType::f16  ? 11
                        : d.type == DataType::bf16 ? 8
                                                   : 4,
         .scaled_a = view_of_a ? &*view_of_a : nullptr,
         .scaled_b = view_of_b ? &*view_of_b : nullptr});
    if (text.empty()) continue;
    return (batches > 1 ? "in batch " + std::to_string(batch) + ", " : "") + text.substr(2) + "\n";
  }
  return "";
}

}  // namespace

GemmProblem with_strides(GemmProblem problem) {
  auto& [m, n, k, batches, a, b, d, fusion, c, second, groups] = problem;
  pad_strides(a, m, k);
  pad_strides(b, n, k);
  const int64_t columns = fusion.activation == GemmActivation::gated_silu ? n / 2 : n;
  const bool is_padded = fusion.second_output || is_block_scaled(d.type);
  if (d.pitch == 0) d.pitch = is_padded ? padded_to(128 / bits_of(d.type), columns) : columns;
  if (d.batch_stride == 0) d.batch_stride = m * d.pitch;
  for (GemmCompanion* matrix : {&c, &second}) {
    matrix->type = matrix->type.value_or(companion_of(d.type));
    if (matrix->pitch == 0) matrix->pitch = padded_to(128 / bits_of(*matrix->type), n);
    matrix->batch_stride = m * matrix->pitch;
  }
  return problem;
}

DataType usual_result(DataType operand) {
  if (operand == DataType::tf32) return DataType::f32;
  return operand == DataType::f16 ? DataType::f16 : DataType::bf16;
}

std::string describe(const GemmProblem& problem) {
  const GemmOperand &a = problem.a, &b = problem.b;
  std::string text = std::to_string(problem.m) + "x" + std::to_string(problem.n) + "x" + std::to_string(problem.k);
  if (problem.batches > 1) text += ", " + std::to_string(problem.batches) + " times,";
  const auto groups = [](auto count) { return std::to_string(count) + (count == 1 ? " group," : " groups,"); };
  if (problem.groups.is_contiguous()) text += " in " + groups(problem.groups.rows.size());
  if (problem.groups.masked > 0) text += " in masked " + groups(problem.groups.masked);
  text += std::string(" ") + name_of(a.type);
  if (a.type != b.type) text += std::string(" x ") + name_of(b.type);
  if (problem.d.type != usual_result(a.type)) text += std::string(" -> ") + name_of(problem.d.type);
  return text;
}

std::string command_of(const GemmCase& run) {
  const GemmProblem problem = with_strides(run.problem);
  const GemmRequest& request = run.request;
  const GemmFusion& fusion = problem.fusion;
  std::string text = "./stagecraft gemm --type ";
  text += name_of(problem.a.type);
  if (problem.a.type != problem.b.type) text += std::string("x") + name_of(problem.b.type);
  text += std::string(" --c-type ") + name_of(problem.d.type) + " --layout ";
  text += problem.a.major == Major::k ? "t" : "n";
  text += problem.b.major == Major::k ? "n" : "t";
  const auto add = [&](const char* name, const auto& value) {
    text += std::string(" ") + name + " " + std::to_string(value);
  };
  const auto add_real = [&](const char* name, float value) {
    char digits[32];
    std::snprintf(digits, sizeof digits, " %s %.9g", name, value);
    text += digits;
  };
  const auto add_if = [&](bool is_used, const char* name) { text += is_used ? std::string(" ") + name : ""; };
  const auto add_pair = [&](const char* name, const std::optional<int>& first, const std::optional<int>& second) {
    if (first && second) text += std::string(" ") + name + " " + std::to_string(*first) + "x" + std::to_string(*second);
  };
  add("--m", problem.m);
  add("--n", problem.n);
  add("--k", problem.k);
  add("--batch", problem.batches);
  add("--lda", problem.a.pitch);
  add("--ldb", problem.b.pitch);
  add("--ldc", problem.d.pitch);
  add_real("--alpha", run.alpha);
  if (fusion.c) {
    add_real("--beta", run.beta);
    text += std::string(" --addend-type ") + name_of(*problem.c.type);
    add("--addend-pitch", problem.c.pitch);
  }
  add_if(fusion.device_factors, "--device-factors");
  if (fusion.scale) add_real("--scale", run.scale);
  add_if(fusion.bias, "--bias");
  if (fusion.bias) text += std::string(" --bias-type ") + name_of(fusion.bias_type);
  add_if(fusion.row_scales, "--row-scales");
  add_if(fusion.column_scales, "--column-scales");
  if (fusion.activation != GemmActivation::none) text += std::string(" --activation ") + name_of(fusion.activation);
  add_if(fusion.second_output, "--aux");
  add_if(fusion.absolute_maximum, "--amax");
  add_pair("--tile", request.tile_m, request.tile_n);
  add_pair("--cluster", request.cluster_m, request.cluster_n);
  if (request.cta_group) add("--cta-group", *request.cta_group);
  if (request.k_group) add("--k-group", *request.k_group);
  if (request.accumulators) add("--accumulators", *request.accumulators);
  if (request.schedule) text += std::string(" --schedule ") + name_of(*request.schedule);
  if (request.split_k > 1) add("--split-k", request.split_k);
  add_if(request.stream_k, "--stream-k");
  if (request.swap) text += *request.swap ? " --swap" : " --no-swap";
  if (problem.groups.exist()) {
    text += " --groups ";
    for (size_t i = 0; i < problem.groups.rows.size(); ++i)
      text += (i == 0 ? "" : ",") + std::to_string(problem.groups.rows[i]);
    for (size_t i = 0; i < run.group_rows.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(run.group_rows[i]);
    add_if(problem.groups.masked > 0, "--masked");
  }
  add("--swizzle", request.raster.width);
  add_if(request.raster.order == RasterOrder::along_n, "--raster n");
  add_if(request.dependent, "--dependent");
  add("--blocks", request.blocks);
  add("--seed", run.seed);
  return text;
}

GemmVerdict verify(const GemmCase& wanted, const GemmPlan& plan) {
  GemmCase run = wanted;
  run.problem = with_strides(run.problem);
  const auto& [m, n, k, wanted_batches, a, b, d, fusion, c, second, groups] = run.problem;
  const int64_t batches = products_of(run.problem);
  const int64_t batches_of_a = groups.is_contiguous() ? 1 : batches;
  require_host_memory(run.problem);
  const bool gated = fusion.activation == GemmActivation::gated_silu;
  const int64_t columns = gated ? n / 2 : n;

  std::vector<float> c_values = random_matrix(*c.type, fusion.c ? batches_of_a * m * n : 0, run.seed + 1);
  if (run.beta == 0) std::ranges::fill(c_values, NAN);  // as in BLAS, it is not read
  const std::vector<float> bias = random_matrix(fusion.bias_type, batches * n, run.seed + 2);
  const std::vector<float> row_scales = random_matrix(DataType::f32, batches_of_a * m, run.seed + 3);
  const std::vector<float> column_scales = random_matrix(DataType::f32, batches * n, run.seed + 4);
  const MatrixPlaces a_places{m, k, batches_of_a, a.major, a.pitch, a.batch_stride};
  const MatrixPlaces b_places{n, k, batches, b.major, b.pitch, b.batch_stride};
  const MatrixPlaces c_places{m, n, batches_of_a, Major::k, c.pitch, c.batch_stride};
  const HostOperand host_a = random_operand(OperandName::a, a.type, a_places, run.seed, groups.rows);
  const HostOperand host_b = random_operand(OperandName::b, b.type, b_places, ~run.seed);
  const auto at_least_one = [](std::vector<unsigned char> bytes) {
    if (bytes.empty()) bytes.resize(16);
    return bytes;
  };
  const DeviceBuffer<unsigned char> device_a(host_a.bytes, "A"), device_b(host_b.bytes, "B"),
      device_sfa(at_least_one(host_a.scale_factors), "A's scale factors"),
      device_sfb(at_least_one(host_b.scale_factors), "B's scale factors");
  const DeviceBuffer<unsigned char> device_c(
      fusion.c ? bytes_of(*c.type, c_places, c_values) : std::vector<unsigned char>(16), "C");
  const DeviceBuffer<unsigned char> device_bias(
      bytes_of(fusion.bias_type, {.rows = 1, .columns = batches * n, .pitch = batches * n}, bias), "the bias");
  const DeviceBuffer<float> factors(std::vector<float>{run.alpha, run.beta, run.scale, kAScale, kBScale},
                                    "the factors");
  // Those on the host are wrong then.
  const auto factor = [&](float value) { return fusion.device_factors ? NAN : value; };
  const auto device_factor = [&](int i) { return fusion.device_factors ? factors.data() + i : nullptr; };
  const DeviceBuffer<float> device_row_scales(row_scales, "the scales of the rows"),
      device_column_scales(column_scales, "the scales of the columns"),
      maximum(std::vector<float>{0}, "the absolute maximum");
  const DeviceBuffer<int> group_rows(run.group_rows.empty() ? std::vector<int>(1) : run.group_rows,
                                     "the rows of the groups");
  const MatrixPlaces d_places{m, columns, batches_of_a, Major::k, d.pitch, d.batch_stride};
  CheckedMatrix result("D", d.type, d_places, /*pieces=*/fusion.second_output && copies_second_output(plan.config()));
  CheckedScaleFactors d_scale_factors(d.type, d_places, groups.rows);
  CheckedMatrix second_result("the second output", *second.type,
                              {m, n, batches_of_a, Major::k, second.pitch, second.batch_stride},
                              /*pieces=*/copies_second_output(plan.config()));
  DeviceBuffer<unsigned char> workspace(std::max<size_t>(plan.workspace_bytes(), 16), "the workspace");
  workspace.poison();

  const auto start = std::chrono::steady_clock::now();
  const auto error = plan.run({.a = device_a.data(),
                               .b = device_b.data(),
                               .d = result.address(),
                               .a_scale_factors = device_sfa.data(),
                               .b_scale_factors = device_sfb.data(),
                               .d_scale_factors = d_scale_factors.address(),
                               .c = device_c.data(),
                               .second = second_result.address(),
                               .bias = device_bias.data(),
                               .row_scales = device_row_scales.data(),
                               .column_scales = device_column_scales.data(),
                               .absolute_maximum = maximum.data(),
                               .group_rows = group_rows.data(),
                               .alpha = factor(run.alpha),
                               .beta = factor(run.beta),
                               .scale = factor(run.scale),
                               .device_alpha = device_factor(0),
                               .device_beta = device_factor(1),
                               .device_scale = device_factor(2),
                               .a_scale = device_factor(3),
                               .b_scale = device_factor(4)},
                              workspace.data(), plan.workspace_bytes());
  if (error) throw std::invalid_argument(error->message);
  harness::check(cudaDeviceSynchronize(), "finish the kernel");
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;

  // The sums in the order of D: a group takes its own rows of A, and of the next matrix of B.
  std::vector<double> sums;
  std::vector<int64_t> group_of_row;  // of contiguous groups
  int64_t first_row = 0;
  for (int64_t batch = 0; batch < batches; ++batch) {
    const int64_t rows = groups.is_contiguous() ? groups.rows[batch] : m;
    const std::span all_of_a(host_a.values), all_of_b(host_b.values);
    const std::vector<double> product = harness::multiply_by_transposed(
        all_of_a.subspan(first_row * k, rows * k), all_of_b.subspan(batch * n * k, n * k), rows, n, k);
    sums.insert(sums.end(), product.begin(), product.end());
    first_row += rows;
    group_of_row.resize(first_row, batch);
  }
  const ReferenceEpilogue epilogue(run, row_scales, column_scales, bias, c_values);
  const auto before_activation = [&](int64_t batch, int64_t row, int64_t column) {
    if (groups.masked > 0 && row >= run.group_rows[batch]) return Bounded{.value = 0, .error = kUntouched};
    const int64_t product = groups.is_contiguous() ? group_of_row[row] : batch;
    return epilogue.before_activation(sums[(batch * m + row) * n + column], batch, product, row, column);
  };
  Bounded largest;
  const auto expected = [&](int64_t batch, int64_t row, int64_t column) {
    if (groups.masked > 0 && row >= run.group_rows[batch]) return Bounded{.value = 0, .error = kUntouched};
    const Bounded gate = gated ? before_activation(batch, row, 2 * column) : Bounded{};
    const Bounded x = before_activation(batch, row, gated ? 2 * column + 1 : column);
    const Bounded y = epilogue.activated(x, gate);
    largest = {larger(largest.value, std::abs(y.value)), std::max(largest.error, y.error)};
    return epilogue.scaled(y);
  };

  GemmVerdict verdict{.seconds = elapsed.count()};
  d_scale_factors.compare(expected, verdict);
  result.compare(
      expected, [&](int64_t batch, int64_t row, int64_t column) { return d_scale_factors.factor(batch, row, column); },
      verdict);
  if (fusion.second_output) {
    second_result.compare(
        before_activation, [](int64_t, int64_t, int64_t) { return 1.0; }, verdict);
  }
  if (fusion.absolute_maximum) {
    const double actual = maximum.to_host()[0];
    const Bounded expected_maximum = in_f32(largest);
    if (difference_of(actual, expected_maximum) > expected_maximum.error) {
      ++verdict.wrong;
      char text[100];
      std::snprintf(text, sizeof text, "the absolute maximum = %g, which should be %g", actual, expected_maximum.value);
      verdict.worst = text;
    }
  }
  if (verdict.wrong > 0 && !is_block_scaled(d.type)) {
    verdict.mistake = likely_mistake(run, plan.config(), host_a, host_b, sums, epilogue, result);
  }
  return verdict;
}

}  // namespace stagecraft
