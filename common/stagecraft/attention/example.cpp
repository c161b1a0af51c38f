// Attention on the tensor cores from a program outside of this repository:
//   g++ attention.cpp $(pkg-config --cflags --libs stagecraft_attention)
// and then ./a.out on a machine with a B200, or stagecraft run ./a.out on any.
#include <cuda_bf16.h>

#include <cstdio>
#include <vector>

#include "stagecraft/attention/plan.hpp"

using namespace stagecraft;

int report(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  return 1;
}

int main() {
  // Four heads of queries over two of keys and values, in bf16: 300 queries, 500 keys, causal.
  const int64_t queries = 300, keys = 500, heads = 4, kv_heads = 2, dim = 128;
  const auto plan = AttentionPlan::choose({.queries = queries,
                                           .keys = keys,
                                           .heads = heads,
                                           .kv_heads = kv_heads,
                                           .head_dim = dim,
                                           .mask = {.causal = true}});
  if (!plan) return report(plan.error().message);
  std::printf("%s\n", plan->description().c_str());

  // Where all values are 2, so is each average of them, whatever the weights are.
  const std::vector<__nv_bfloat16> ones(queries * heads * dim, __nv_bfloat16(1.0f)),
      twos(keys * kv_heads * dim, __nv_bfloat16(2.0f));
  void *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr;
  if (cudaMalloc(&q, ones.size() * 2) || cudaMalloc(&k, twos.size() * 2) || cudaMalloc(&v, twos.size() * 2) ||
      cudaMalloc(&o, ones.size() * 2)) {
    return report("there is not enough memory on the device");
  }
  cudaMemcpy(q, ones.data(), ones.size() * 2, cudaMemcpyHostToDevice);
  cudaMemcpy(k, twos.data(), twos.size() * 2, cudaMemcpyHostToDevice);
  cudaMemcpy(v, twos.data(), twos.size() * 2, cudaMemcpyHostToDevice);
  if (const auto error = plan->run({.q = q, .k = k, .v = v, .o = o})) return report(error->message);

  std::vector<__nv_bfloat16> result(queries * heads * dim);
  if (cudaMemcpy(result.data(), o, result.size() * 2, cudaMemcpyDeviceToHost)) return report("the kernel failed");
  for (const __nv_bfloat16 element : result) {
    if (static_cast<float>(element) != 2) return report("an element is wrong");
  }
  std::printf("%zu elements are 2\n", result.size());
}
