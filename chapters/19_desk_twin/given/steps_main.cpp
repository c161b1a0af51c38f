// Runs one step of the kernel and checks every element. For looking at, for counting conflicts and for timing:
// STAGECRAFT_COUNTERS=bank_conflicts build/desk_steps fragments, ./stagecraft time build/desk_steps roles 2048 2048
// 1024
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string_view>

#include "harness/block_scaling.hpp"
#include "harness/kernel_run.hpp"
#include "harness/options.hpp"
#include "harness/product_check.hpp"
#include "steps.hpp"

namespace {

using namespace stagecraft;
using namespace stagecraft::harness;
using Element = __nv_bfloat16;

constexpr int kBadOptions = 2;
constexpr struct {
  std::string_view name;
  DeskStep step;
} kSteps[] = {{"fragments", DeskStep::fragments},
              {"swizzle", DeskStep::swizzle},
              {"register_stages", DeskStep::register_stages},
              {"roles", DeskStep::roles},
              {"persistent", DeskStep::persistent},
              {"launch_control", DeskStep::launch_control}};

/// As `check_product`, of operands of very different size that are quantised.
template <typename Type>
bool check_scaled_product(const ProductSizes& sizes) {
  const size_t m = sizes.m, n = sizes.n, k = sizes.k;
  const auto a = quantise<Type>(random_uneven_values(m, k, 1), m, k);
  const auto b = quantise<Type>(random_uneven_values(n, k, 2), n, k);
  const BlockScaledBuffers there_a(a, "A"), there_b(b, "B");
  DeviceBuffer<Element> there_d(m * n, "D");
  there_d.poison();
  start_desk_step<Type>(there_a.elements.data(), there_a.scale_factors.data(), there_b.elements.data(),
                        there_b.scale_factors.data(), there_d.data(), sizes.m, sizes.n, sizes.k);
  finish_kernel("the kernel");
  constexpr size_t kMmaK = 256 / element_bits<typename Type::Element>;
  const size_t wrong = compare_scaled(there_d.to_host(), scaled_product(a.values, b.values, m, n, k), k, kMmaK).wrong;
  std::printf("%d x %d x %d: %zu elements compared with the host's, %zu wrong\n", sizes.m, sizes.n, sizes.k, m * n,
              wrong);
  return wrong == 0;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string_view wanted = argc == 2 || argc == 5 ? argv[1] : "";
  const auto number = [&](int index, const char* what) {
    return argc == 5 ? static_cast<int>(parse_number(what, argv[index], 1, 1 << 20)) : 512;
  };
  const ProductSizes sizes{number(2, "M"), number(3, "N"), number(4, "K")};
  if (wanted == "mxfp8") return check_scaled_product<Mxfp8>(sizes) ? 0 : 1;
  if (wanted == "nvfp4") return check_scaled_product<Nvfp4>(sizes) ? 0 : 1;
  for (const auto& [name, step] : kSteps) {
    if (name != wanted) continue;
    const bool right = check_product<Element>(sizes, [&](const Element* a, const Element* b, Element* d) {
      start_desk_step(step, a, b, d, sizes.m, sizes.n, sizes.k);
      finish_kernel("the kernel");
    });
    return right ? 0 : 1;
  }
  std::fprintf(
      stderr,
      "usage: desk_steps fragments|swizzle|register_stages|roles|persistent|launch_control|mxfp8|nvfp4 [M N K]\n");
  return kBadOptions;
} catch (const std::invalid_argument& error) {
  std::fprintf(stderr, "desk_steps: %s\n", error.what());
  return kBadOptions;
} catch (const std::exception& error) {
  std::fprintf(stderr, "desk_steps: %s\n", error.what());
  return 1;
}
