#include "stagecraft/gemm/c_interface.h"

#include <string>
#include <utility>

#include "stagecraft/c_calls.hpp"
#include "stagecraft/gemm/grouped_tiles.hpp"
#include "stagecraft/gemm/plan.hpp"

using namespace stagecraft;

/// What the opaque handle is.
struct stagecraft_gemm_plan {
  GemmPlan plan;
  std::string description;
};

namespace {

thread_local CCalls calls;

static_assert(static_cast<int>(DataType::fp8_blockwise) == STAGECRAFT_FP8_BLOCKWISE);
static_assert(static_cast<int>(DataType::nvfp4) == STAGECRAFT_NVFP4 &&
              static_cast<int>(DataType::f32) == STAGECRAFT_F32);
static_assert(static_cast<int>(GemmActivation::gated_silu) == STAGECRAFT_GEMM_GATED_SILU);
static_assert(static_cast<int>(GemmActivation::gelu_tanh) == STAGECRAFT_GEMM_GELU_TANH);
static_assert(static_cast<int>(GemmSchedule::launch_control) + 1 == STAGECRAFT_GEMM_LAUNCH_CONTROL);

DataType type_of(const stagecraft_gemm_matrix& matrix, const char* name) {
  return enumerator(name, matrix.type, DataType::fp8_blockwise);
}

GemmOperand operand(const stagecraft_gemm_matrix& matrix, const char* name) {
  return {.type = type_of(matrix, name),
          .major = matrix.is_transposed ? Major::mn : Major::k,
          .pitch = matrix.pitch,
          .batch_stride = matrix.batch_stride};
}

GemmDestination destination(const stagecraft_gemm_matrix& matrix, DataType type) {
  return {.type = type, .pitch = matrix.pitch, .batch_stride = matrix.batch_stride};
}

GemmProblem converted(const stagecraft_gemm_problem& from) {
  GemmProblem problem{.m = from.m, .n = from.n, .k = from.k, .batches = from.batches == 0 ? 1 : from.batches};
  problem.a = operand(from.a, "type of A");
  problem.b = operand(from.b, "type of B");
  problem.d = destination(from.d, type_of(from.d, "type of D"));
  problem.c = destination(from.c, companion_of(problem.d.type));
  problem.second = destination(from.second, companion_of(problem.d.type));
  problem.fusion.c = from.adds_c;
  problem.fusion.bias = from.adds_bias;
  problem.fusion.row_scales = from.scales_rows;
  problem.fusion.column_scales = from.scales_columns;
  problem.fusion.activation = enumerator("activation", from.activation, GemmActivation::gated_silu);
  problem.fusion.second_output = from.stores_second;
  problem.fusion.absolute_maximum = from.measures_maximum;
  problem.fusion.scale = from.scales_d;
  if (from.group_count < 0 || from.group_count > kMostGroups || from.masked_groups < 0) {
    throw Refused{"there are " + std::to_string(from.masked_groups < 0 ? from.masked_groups : from.group_count) +
                  " groups. Legal are 0, for none, to " + std::to_string(kMostGroups) + "."};
  }
  if (from.group_count > 0 && from.groups == nullptr) throw Refused{"the rows of the groups are null."};
  problem.groups.rows.assign(from.groups, from.groups + from.group_count);
  problem.groups.masked = from.masked_groups;
  return problem;
}

GemmRequest converted(const stagecraft_gemm_request& from) {
  GemmRequest request;
  for (const auto& [to, value] : {std::pair{&request.tile_m, from.tile_m},
                                  {&request.tile_n, from.tile_n},
                                  {&request.k_group, from.k_group},
                                  {&request.accumulators, from.accumulators},
                                  {&request.cta_group, from.cta_group},
                                  {&request.cluster_m, from.cluster_m},
                                  {&request.cluster_n, from.cluster_n}}) {
    if (value != 0) *to = value;
  }
  request.fallback_m = from.fallback_m;
  request.fallback_n = from.fallback_n;
  if (enumerator("schedule", from.schedule, STAGECRAFT_GEMM_LAUNCH_CONTROL) != STAGECRAFT_GEMM_ANY_SCHEDULE) {
    request.schedule = static_cast<GemmSchedule>(from.schedule - 1);
  }
  if (from.split_k != 0) request.split_k = from.split_k;
  if (from.raster_along_n) request.raster.order = RasterOrder::along_n;
  if (from.raster_width != 0) request.raster.width = static_cast<uint32_t>(from.raster_width);
  request.blocks = from.blocks;
  if (from.swap != 0) request.swap = from.swap > 0;
  request.stream_k = from.stream_k;
  request.dependent = from.dependent;
  return request;
}

GemmArguments converted(const stagecraft_gemm_arguments& from) {
  return {.a = from.a,
          .b = from.b,
          .d = from.d,
          .a_scale_factors = from.a_scale_factors,
          .b_scale_factors = from.b_scale_factors,
          .d_scale_factors = from.d_scale_factors,
          .c = from.c,
          .second = from.second,
          .bias = from.bias,
          .row_scales = from.row_scales,
          .column_scales = from.column_scales,
          .absolute_maximum = from.absolute_maximum,
          .group_rows = from.masked_rows,
          .alpha = from.alpha != nullptr ? *from.alpha : 1,
          .beta = from.beta != nullptr ? *from.beta : 1,
          .scale = from.scale != nullptr ? *from.scale : 1};
}

}  // namespace

stagecraft_status stagecraft_gemm_create(const stagecraft_gemm_problem* problem, const stagecraft_gemm_request* request,
                                         stagecraft_gemm_plan** plan) {
  return calls.guarded([&] {
    if (plan == nullptr) throw Refused{"there is nowhere to put the plan: the pointer to it is null."};
    *plan = nullptr;
    if (problem == nullptr) throw Refused{"the problem is null."};
    const auto chosen = GemmPlan::choose(converted(*problem), request != nullptr ? converted(*request) : GemmRequest{});
    if (!chosen) return calls.report(chosen.error());
    *plan = new stagecraft_gemm_plan{*chosen, chosen->description()};
    return STAGECRAFT_OK;
  });
}

void stagecraft_gemm_destroy(stagecraft_gemm_plan* plan) { delete plan; }

size_t stagecraft_gemm_workspace_bytes(const stagecraft_gemm_plan* plan) {
  return plan != nullptr ? plan->plan.workspace_bytes() : 0;
}

const char* stagecraft_gemm_description(const stagecraft_gemm_plan* plan) {
  return plan != nullptr ? plan->description.c_str() : "";
}

stagecraft_status stagecraft_gemm_run(const stagecraft_gemm_plan* plan, const stagecraft_gemm_arguments* arguments,
                                      void* workspace, size_t workspace_bytes, CUstream_st* stream) {
  return calls.guarded([&] {
    if (plan == nullptr) throw Refused{"the plan is null."};
    if (arguments == nullptr) throw Refused{"the arguments are null."};
    const auto error = plan->plan.run(converted(*arguments), workspace, workspace_bytes, stream);
    return error ? calls.report(*error) : STAGECRAFT_OK;
  });
}

const char* stagecraft_gemm_message(void) { return calls.message(); }
