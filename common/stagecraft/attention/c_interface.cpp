#include "stagecraft/attention/c_interface.h"

#include <string>

#include "stagecraft/attention/plan.hpp"
#include "stagecraft/c_calls.hpp"

using namespace stagecraft;

/// What the opaque handle is.
struct stagecraft_attention_plan {
  AttentionPlan plan;
  std::string description;
};

namespace {

thread_local CCalls calls;

static_assert(static_cast<int>(DataType::bf16) == STAGECRAFT_BF16 &&
              static_cast<int>(DataType::f16) == STAGECRAFT_F16 && static_cast<int>(DataType::e4m3) == STAGECRAFT_E4M3);

AttentionStrides converted(const stagecraft_attention_strides& from) {
  return {.token = from.token, .head = from.head, .sequence = from.sequence};
}

AttentionProblem converted(const stagecraft_attention_problem& from) {
  AttentionProblem problem{
      .type = enumerator("type of Q, K and V", from.type, DataType::fp8_blockwise),
      .sequences = from.sequences == 0 ? 1 : from.sequences,
      .queries = from.queries,
      .keys = from.keys,
      .heads = from.heads,
      .kv_heads = from.kv_heads,
      .head_dim = from.head_dim,
      .value_dim = from.value_dim,
      .scale = from.scale,
      .mask = {.causal = from.causal},
      .soft_cap = from.soft_cap,
      .variable_queries = from.variable_queries,
      .variable_keys = from.variable_keys,
      .sinks = from.sinks,
      .logsumexp = from.logsumexp,
      .pages = {.size = from.page_size, .count = from.page_count, .of_sequence = from.pages_of_sequence},
      .q = converted(from.q),
      .k = converted(from.k),
      .v = converted(from.v),
      .o = converted(from.o)};
  if (from.has_window) {
    problem.mask.window_left = from.window_left;
    problem.mask.window_right = from.window_right;
  }
  return problem;
}

AttentionArguments converted(const stagecraft_attention_arguments& from) {
  return {.q = from.q,
          .k = from.k,
          .v = from.v,
          .o = from.o,
          .logsumexp = from.logsumexp,
          .sinks = from.sinks,
          .query_begins = from.query_begins,
          .key_begins = from.key_begins,
          .key_lengths = from.key_lengths,
          .page_table = from.page_table,
          .all_queries = from.all_queries,
          .all_keys = from.all_keys,
          .output_scale = from.output_scale != nullptr ? *from.output_scale : 1};
}

}  // namespace

stagecraft_status stagecraft_attention_create(const stagecraft_attention_problem* problem,
                                              stagecraft_attention_plan** plan) {
  return calls.guarded([&] {
    if (plan == nullptr) throw Refused{"there is nowhere to put the plan: the pointer to it is null."};
    *plan = nullptr;
    if (problem == nullptr) throw Refused{"the problem is null."};
    const auto chosen = AttentionPlan::choose(converted(*problem));
    if (!chosen) return calls.report(chosen.error());
    *plan = new stagecraft_attention_plan{*chosen, chosen->description()};
    return STAGECRAFT_OK;
  });
}

void stagecraft_attention_destroy(stagecraft_attention_plan* plan) { delete plan; }

const char* stagecraft_attention_description(const stagecraft_attention_plan* plan) {
  return plan != nullptr ? plan->description.c_str() : "";
}

stagecraft_status stagecraft_attention_run(const stagecraft_attention_plan* plan,
                                           const stagecraft_attention_arguments* arguments, CUstream_st* stream) {
  return calls.guarded([&] {
    if (plan == nullptr) throw Refused{"the plan is null."};
    if (arguments == nullptr) throw Refused{"the arguments are null."};
    const auto error = plan->plan.run(converted(*arguments), stream);
    return error ? calls.report(*error) : STAGECRAFT_OK;
  });
}

const char* stagecraft_attention_message(void) { return calls.message(); }
