/* The GEMM for Hopper for C, and for languages that call C. Functions may be called by any number of threads at the
 * same time, but each plan by one thread at a time. */
#pragma once

#include <stdint.h>

#include "stagecraft/c_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** C (m x n) = A (m x k) * B (n x k) transposed, with sums in f32. All are in device memory, row-major without gaps,
 * 16-byte aligned. */
struct stagecraft_hopper_problem {
  enum stagecraft_type type; /**< of A and B: STAGECRAFT_BF16 or STAGECRAFT_E4M3 */
  const void* a;
  const void* b;
  void* c;         /**< bf16 */
  int64_t m, n, k; /**< 1 to 2^24 each; C has fewer than 2^40 elements */
};

/** A product that was prepared. */
typedef struct stagecraft_hopper_plan stagecraft_hopper_plan;

/** Checks a product, chooses a configuration of the kernel for the current device, and allocates what that needs.
 * @param plan  gets the plan, which stagecraft_hopper_destroy ends; null when this fails. */
enum stagecraft_status stagecraft_hopper_create(const struct stagecraft_hopper_problem* problem,
                                                stagecraft_hopper_plan** plan);

/** Ends a plan and frees its memory, for which it waits until the device has no work left. Null is permitted. */
void stagecraft_hopper_destroy(stagecraft_hopper_plan* plan);

/** The name of the configuration; it exists as long as the program. */
const char* stagecraft_hopper_configuration(const stagecraft_hopper_plan* plan);

/** Starts the product on a stream and returns at once. What goes wrong while it runs, the next synchronising call of
 * CUDA reports. Plans of the same matrices and sizes share memory, so all of their runs must be on one stream. */
enum stagecraft_status stagecraft_hopper_run(stagecraft_hopper_plan* plan, struct CUstream_st* stream);

/** Why the calling thread's last call that failed did so. Valid until its next call that fails; empty before the
 * first. */
const char* stagecraft_hopper_message(void);

#ifdef __cplusplus
}
#endif
