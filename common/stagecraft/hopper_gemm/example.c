/* A product on Hopper's tensor cores from C:
 *   gcc -std=c11 hopper_gemm.c $(pkg-config --cflags --libs stagecraft_hopper_c)
 * and then ./a.out on a machine with an H100 or H200, or stagecraft run --device h200 ./a.out on any. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "stagecraft/hopper_gemm/c_interface.h"

enum { M = 300, N = 200, K = 500 };
static uint16_t a[M][K], b[N][K], c[M][N];

/* A float whose lower bits are zero, or are cut off. */
static uint16_t bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(bits >> 16);
}

static int report(const char* message) {
  fprintf(stderr, "%s\n", message);
  return 1;
}

int main(void) {
  for (int k = 0; k < K; ++k) {
    for (int i = 0; i < M; ++i) a[i][k] = bf16((float)((i + k) % 5 - 2));
    for (int j = 0; j < N; ++j) b[j][k] = bf16((float)(j % 7 == k % 7));
  }
  void* on_device[3];
  if (cudaMalloc(&on_device[0], sizeof a) || cudaMalloc(&on_device[1], sizeof b) ||
      cudaMalloc(&on_device[2], sizeof c)) {
    return report("there is not enough memory on the device");
  }
  cudaMemcpy(on_device[0], a, sizeof a, cudaMemcpyHostToDevice);
  cudaMemcpy(on_device[1], b, sizeof b, cudaMemcpyHostToDevice);

  const struct stagecraft_hopper_problem problem = {
      .type = STAGECRAFT_BF16, .a = on_device[0], .b = on_device[1], .c = on_device[2], .m = M, .n = N, .k = K};
  stagecraft_hopper_plan* plan;
  if (stagecraft_hopper_create(&problem, &plan)) return report(stagecraft_hopper_message());
  printf("configuration: %s\n", stagecraft_hopper_configuration(plan));
  if (stagecraft_hopper_run(plan, NULL)) return report(stagecraft_hopper_message());
  if (cudaMemcpy(c, on_device[2], sizeof c, cudaMemcpyDeviceToHost)) return report("the kernel failed");
  stagecraft_hopper_destroy(plan);

  for (int i = 0; i < M; ++i) {
    for (int j = 0; j < N; ++j) {
      int sum = 0; /* of at most 72 numbers up to 2, so bf16 holds it */
      for (int k = 0; k < K; ++k) sum += ((i + k) % 5 - 2) * (j % 7 == k % 7);
      if (c[i][j] != bf16((float)sum)) return report("an element is wrong");
    }
  }
  printf("%d elements are right\n", M * N);
  return 0;
}
