/* A product on the tensor cores from C:
 *   gcc -std=c11 gemm.c $(pkg-config --cflags --libs stagecraft_c)
 * and then ./a.out on a machine with a B200, or stagecraft run ./a.out on any. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "stagecraft/gemm/c_interface.h"

enum { M = 300, N = 200, K = 512 };
static uint16_t a[M][K], b[N][K];
static float d[M][N];

/* A float whose lower bits are zero. */
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
    for (int j = 0; j < N; ++j) b[j][k] = bf16((float)((j * k) % 7 - 3));
  }
  struct stagecraft_gemm_problem problem = {.m = M, .n = N, .k = K, .d.type = STAGECRAFT_F32};
  stagecraft_gemm_plan* plan;
  if (stagecraft_gemm_create(&problem, NULL, &plan)) return report(stagecraft_gemm_message());
  printf("%s\n", stagecraft_gemm_description(plan));

  void *on_device[3], *workspace = NULL;
  const size_t bytes = stagecraft_gemm_workspace_bytes(plan);
  if (cudaMalloc(&on_device[0], sizeof a) || cudaMalloc(&on_device[1], sizeof b) ||
      cudaMalloc(&on_device[2], sizeof d) || cudaMalloc(&workspace, bytes)) {
    return report("there is not enough memory on the device");
  }
  cudaMemcpy(on_device[0], a, sizeof a, cudaMemcpyHostToDevice);
  cudaMemcpy(on_device[1], b, sizeof b, cudaMemcpyHostToDevice);

  const float alpha = 0.5f;
  const struct stagecraft_gemm_arguments arguments = {
      .a = on_device[0], .b = on_device[1], .d = on_device[2], .alpha = &alpha};
  if (stagecraft_gemm_run(plan, &arguments, workspace, bytes, NULL)) return report(stagecraft_gemm_message());
  if (cudaMemcpy(d, on_device[2], sizeof d, cudaMemcpyDeviceToHost)) return report("the kernel failed");
  stagecraft_gemm_destroy(plan);

  for (int i = 0; i < M; ++i) {
    for (int j = 0; j < N; ++j) {
      int sum = 0;
      for (int k = 0; k < K; ++k) sum += ((i + k) % 5 - 2) * ((j * k) % 7 - 3);
      if (d[i][j] != alpha * (float)sum) return report("an element is wrong");
    }
  }
  printf("%d elements are right\n", M * N);
  return 0;
}
