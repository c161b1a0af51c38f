// The kernels that are compiled into the library.
#include <vector>

#include "stagecraft/attention/kernel_table.hpp"
#include "stagecraft/attention/kernels/tables.hpp"

namespace stagecraft {

std::span<const AttentionKernel* const> shipped_attentions() {
  static const std::vector<const AttentionKernel*> kernels = [] {
    std::vector<const AttentionKernel*> all;
    for (const auto& table : {shipped::bf16_attentions(), shipped::f16_attentions(), shipped::e4m3_attentions()}) {
      for (const AttentionKernel& kernel : table) all.push_back(&kernel);
    }
    return all;
  }();
  return kernels;
}

}  // namespace stagecraft
