/* Attention for Blackwell for C, and for languages that call C. It is plan.hpp in other words: AttentionProblem and
 * AttentionArguments there say more about each member. Zero means the plain case in all that is not said to be needed,
 * so start with `= {0}`.
 *
 * Functions may be called by any number of threads at the same time, also with the same plan. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stagecraft/c_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Where the rows of Q, K, V or the output are, in elements; 0: without a gap. Multiples of 16 bytes. */
struct stagecraft_attention_strides {
  int64_t token;    /**< from one query, or key, to the next */
  int64_t head;     /**< from one head to the next */
  int64_t sequence; /**< from one sequence to the next; not with variable lengths, nor with pages */
};

/** softmax(scale * Q * K transposed) * V, for each sequence and head. */
struct stagecraft_attention_problem {
  enum stagecraft_type type; /**< of Q, K and V: bf16, f16 or e4m3; the output is as Q, or bf16 for e4m3 */
  int64_t sequences;         /**< each with queries and keys of its own; 0: one */
  int64_t queries, keys;     /**< needed: of a sequence; with variable lengths, at most */
  int64_t heads;             /**< needed: of Q and of the output */
  int64_t kv_heads;          /**< of K and V, a divisor of `heads`; 0: as many */
  int64_t head_dim;          /**< needed: elements of a row of Q and K */
  int64_t value_dim;         /**< elements of a row of V and of the output; 0: as `head_dim`, but 128 for 192 */
  float scale;               /**< of products of queries and keys; 0: 1 / sqrt(head_dim) */
  float soft_cap;            /**< makes soft_cap * tanh(logit / soft_cap) of a logit; 0: leaves it */
  bool causal;               /**< a query sees no key after its own */
  bool has_window;           /**< and, of keys before and after its own, no more than the next two say */
  int64_t window_left;       /**< so many before; -1: all */
  int64_t window_right;      /**< so many after; -1: all */
  bool variable_queries;     /**< the arguments say where sequences of queries begin */
  bool variable_keys;        /**< the arguments say where those of keys begin; with pages, how many keys there are */
  bool sinks;                /**< each head has a logit that takes part in the sum, and has no value */
  bool logsumexp;            /**< of each row is stored */
  int64_t page_size;         /**< keys in a page: 16, 32, 64, or a multiple of 128; 0: there is no cache */
  int64_t page_count;        /**< pages of the cache */
  int64_t pages_of_sequence; /**< entries in a row of the table; 0: as many as `keys` need */
  struct stagecraft_attention_strides q, k, v, o;
};

/** Where everything is in device memory. What the problem does not ask for may be null. */
struct stagecraft_attention_arguments {
  const void *q, *k, *v;     /**< 16-byte aligned, as o */
  void* o;                   /**< the output */
  float* logsumexp;          /**< heads x queries of all sequences: natural logarithms, a sink included */
  const float* sinks;        /**< one for each head */
  const int* query_begins;   /**< sequences + 1: the first query of each, and the end of the last one */
  const int* key_begins;     /**< sequences + 1: the same of keys */
  const int* key_lengths;    /**< with pages: keys of each sequence */
  const int* page_table;     /**< with pages: for each sequence, the page of each page size of keys */
  int64_t all_queries;       /**< with variable queries: those of all sequences together */
  int64_t all_keys;          /**< with variable keys and without pages: those of all sequences together */
  const float* output_scale; /**< on the host, read during the call: multiplies the output; null: 1 */
};

/** A kernel that was chosen for a problem. */
typedef struct stagecraft_attention_plan stagecraft_attention_plan;

/** Checks a problem, and chooses a kernel for the current device.
 * @param plan  gets the plan, which stagecraft_attention_destroy ends; null when this fails. */
enum stagecraft_status stagecraft_attention_create(const struct stagecraft_attention_problem* problem,
                                                   stagecraft_attention_plan** plan);

/** Ends a plan. Kernels that it started go on. Null is permitted. */
void stagecraft_attention_destroy(stagecraft_attention_plan* plan);

/** The kernel in one line, for people; it exists as long as the plan. */
const char* stagecraft_attention_description(const stagecraft_attention_plan* plan);

/** Starts the kernel on a stream and returns at once. What goes wrong while it runs, the next synchronising call of
 * CUDA reports. */
enum stagecraft_status stagecraft_attention_run(const stagecraft_attention_plan* plan,
                                                const struct stagecraft_attention_arguments* arguments,
                                                struct CUstream_st* stream);

/** Why the calling thread's last call that failed did so: "heads = 0 is too small. Legal are 1 to 65535.". Valid until
 * its next call that fails; empty before the first. */
const char* stagecraft_attention_message(void);

#ifdef __cplusplus
}
#endif
