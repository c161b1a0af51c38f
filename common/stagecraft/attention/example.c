/* Attention on the tensor cores from C:
 *   gcc -std=c11 attention.c $(pkg-config --cflags --libs stagecraft_attention_c)
 * and then ./a.out on a machine with a B200, or stagecraft run ./a.out on any. */
#include <cuda_runtime_api.h>
#include <stdio.h>

#include "stagecraft/attention/c_interface.h"

enum { QUERIES = 300, KEYS = 500, HEADS = 4, KV_HEADS = 2, DIM = 128 };
enum { ONE = 0x3f80, TWO = 0x4000 }; /* of bf16 */
static uint16_t q[QUERIES][HEADS][DIM], k[KEYS][KV_HEADS][DIM], v[KEYS][KV_HEADS][DIM], o[QUERIES][HEADS][DIM];

static int report(const char* message) {
  fprintf(stderr, "%s\n", message);
  return 1;
}

int main(void) {
  struct stagecraft_attention_problem problem = {
      .queries = QUERIES, .keys = KEYS, .heads = HEADS, .kv_heads = KV_HEADS, .head_dim = DIM, .causal = true};
  stagecraft_attention_plan* plan;
  if (stagecraft_attention_create(&problem, &plan)) return report(stagecraft_attention_message());
  printf("%s\n", stagecraft_attention_description(plan));

  /* Where all values are 2, so is each average of them, whatever the weights are. */
  for (size_t i = 0; i < sizeof q / sizeof(uint16_t); ++i) (&q[0][0][0])[i] = ONE;
  for (size_t i = 0; i < sizeof k / sizeof(uint16_t); ++i) (&k[0][0][0])[i] = (&v[0][0][0])[i] = TWO;
  void* on_device[4];
  if (cudaMalloc(&on_device[0], sizeof q) || cudaMalloc(&on_device[1], sizeof k) ||
      cudaMalloc(&on_device[2], sizeof v) || cudaMalloc(&on_device[3], sizeof o)) {
    return report("there is not enough memory on the device");
  }
  cudaMemcpy(on_device[0], q, sizeof q, cudaMemcpyHostToDevice);
  cudaMemcpy(on_device[1], k, sizeof k, cudaMemcpyHostToDevice);
  cudaMemcpy(on_device[2], v, sizeof v, cudaMemcpyHostToDevice);

  const struct stagecraft_attention_arguments arguments = {
      .q = on_device[0], .k = on_device[1], .v = on_device[2], .o = on_device[3]};
  if (stagecraft_attention_run(plan, &arguments, NULL)) return report(stagecraft_attention_message());
  if (cudaMemcpy(o, on_device[3], sizeof o, cudaMemcpyDeviceToHost)) return report("the kernel failed");
  stagecraft_attention_destroy(plan);

  for (size_t i = 0; i < sizeof o / sizeof(uint16_t); ++i) {
    if ((&o[0][0][0])[i] != TWO) return report("an element is wrong");
  }
  printf("%zu elements are 2\n", sizeof o / sizeof(uint16_t));
  return 0;
}
