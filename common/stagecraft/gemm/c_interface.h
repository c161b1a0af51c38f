/* The GEMM for Blackwell for C, and for languages that call C. It is plan.hpp in other words: GemmProblem, GemmRequest
 * and GemmArguments there say more about each member. Zero means the plain case in all that is not said to be needed,
 * so start with `= {0}`. What no shipped kernel has is left to C++: a bias or C of other types, factors in device
 * memory.
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

/** What happens to each sum, or to pairs of columns. */
enum stagecraft_gemm_activation {
  STAGECRAFT_GEMM_NO_ACTIVATION = 0,
  STAGECRAFT_GEMM_RELU = 1,
  STAGECRAFT_GEMM_GELU = 2,      /**< by erf */
  STAGECRAFT_GEMM_GELU_TANH = 3, /**< by tanh */
  STAGECRAFT_GEMM_SILU = 4,
  STAGECRAFT_GEMM_GATED_SILU = 5 /**< silu(column 2j) * column 2j + 1 gives column j of D, which has n / 2 columns */
};

/** How tiles are dealt out to blocks. */
enum stagecraft_gemm_schedule {
  STAGECRAFT_GEMM_ANY_SCHEDULE = 0, /**< the plan decides */
  STAGECRAFT_GEMM_ONE_TILE = 1,
  STAGECRAFT_GEMM_PERSISTENT = 2,
  STAGECRAFT_GEMM_LAUNCH_CONTROL = 3
};

/** A matrix in device memory. Strides are in elements. */
struct stagecraft_gemm_matrix {
  enum stagecraft_type
      type;             /**< of C and of the second output it is not read: D's, or bf16 where D has 8 bits or fewer */
  bool is_transposed;   /**< of A and B: contiguous along M or N in place of K */
  int64_t pitch;        /**< from one row (where transposed: column) to the next; 0: no gap */
  int64_t batch_stride; /**< from one matrix of a batch to the next; 0: no gap */
};

/** D (m x n) = scale * activation(row_scale * column_scale * alpha * A (m x k) * B (n x k) transposed + beta * C +
 * bias). */
struct stagecraft_gemm_problem {
  int64_t m, n, k; /**< needed */
  int64_t batches; /**< products of this size; 0: one */
  struct stagecraft_gemm_matrix a, b, d, c, second;
  enum stagecraft_gemm_activation activation;
  bool adds_c;           /**< adds beta * C */
  bool adds_bias;        /**< adds a bias for each column */
  bool scales_rows;      /**< multiplies each row by a scale */
  bool scales_columns;   /**< multiplies each column by a scale */
  bool scales_d;         /**< multiplies what is stored by a scale, for e4m3 */
  bool stores_second;    /**< stores what goes into the activation */
  bool measures_maximum; /**< finds the largest absolute value that comes out of the activation */
  const int64_t* groups; /**< contiguous groups: the rows of each, together m; on the host, read during the call */
  int64_t group_count;   /**< how many there are; 0: the problem has no contiguous groups */
  int64_t masked_groups; /**< masked groups: how many; 0: none */
};

/** What the caller decides rather than the plan. What is zero is left to the plan. */
struct stagecraft_gemm_request {
  int tile_m, tile_n, k_group, accumulators, cta_group, cluster_m, cluster_n, fallback_m, fallback_n;
  enum stagecraft_gemm_schedule schedule;
  int split_k;         /**< pieces of each tile along K; 0: one */
  int blocks;          /**< at most, for a persistent schedule; 0: as many as run at once */
  int swap;            /**< 1: computes D transposed as B * A transposed; -1: does not; 0: the plan decides */
  int raster_width;    /**< of a panel of tiles, in tiles of a cluster; 0: 1 */
  bool raster_along_n; /**< panels are long along N, not along M */
  bool stream_k;       /**< even shares of K for all clusters */
  bool dependent;      /**< programmatic dependent launch */
};

/** Where everything is. What the problem does not ask for may be null. */
struct stagecraft_gemm_arguments {
  const void *a, *b;           /**< in device memory, 16-byte aligned, as all up to `second` */
  void* d;                     /**< aligned to its elements is enough */
  const void* a_scale_factors; /**< of types that have them, in the layout that GemmArguments describes */
  const void* b_scale_factors; /**< the same; of FP8 in blocks, aligned to 4 bytes */
  void* d_scale_factors;       /**< of a block-scaled D, which are written */
  const void* c;               /**< of D's type, or bf16 where D has 8 bits or fewer */
  void* second;                /**< what goes into the activation, of C's type */
  const float* bias;           /**< in device memory: n for each batch or group */
  const float* row_scales;     /**< in device memory: one for each row of D */
  const float* column_scales;  /**< in device memory: n for each batch or group */
  float* absolute_maximum;     /**< in device memory: one, of which and of what was found the larger is left */
  const int* masked_rows;      /**< in device memory: of masked groups, the rows of each */
  const float *alpha, *beta;   /**< on the host, read during the call; null: 1 */
  const float* scale;          /**< on the host, of D; null: 1 */
};

/** A kernel that was chosen for a problem. */
typedef struct stagecraft_gemm_plan stagecraft_gemm_plan;

/** Checks a problem, and chooses a kernel for the current device.
 * @param request  may be null.
 * @param plan     gets the plan, which stagecraft_gemm_destroy ends; null when this fails. */
enum stagecraft_status stagecraft_gemm_create(const struct stagecraft_gemm_problem* problem,
                                              const struct stagecraft_gemm_request* request,
                                              stagecraft_gemm_plan** plan);

/** Ends a plan. Kernels that it started go on. Null is permitted. */
void stagecraft_gemm_destroy(stagecraft_gemm_plan* plan);

/** Bytes of device memory that stagecraft_gemm_run needs besides the matrices. */
size_t stagecraft_gemm_workspace_bytes(const stagecraft_gemm_plan* plan);

/** The kernel in one line, for people; it exists as long as the plan. */
const char* stagecraft_gemm_description(const stagecraft_gemm_plan* plan);

/** Starts the kernel on a stream and returns at once. What goes wrong while it runs, the next synchronising call of
 * CUDA reports.
 * @param workspace        device memory, 16-byte aligned, which nothing else uses meanwhile.
 * @param workspace_bytes  its size, at least stagecraft_gemm_workspace_bytes(plan). */
enum stagecraft_status stagecraft_gemm_run(const stagecraft_gemm_plan* plan,
                                           const struct stagecraft_gemm_arguments* arguments, void* workspace,
                                           size_t workspace_bytes, struct CUstream_st* stream);

/** Why the calling thread's last call that failed did so: "K = 0 is too small. Legal are 1 to 8388480." Valid until
 * its next call that fails; empty before the first. */
const char* stagecraft_gemm_message(void);

#ifdef __cplusplus
}
#endif
