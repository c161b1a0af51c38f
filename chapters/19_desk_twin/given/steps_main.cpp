// Runs one step of the kernel and checks every element. For looking at, for counting conflicts and for timing:
// STAGECRAFT_COUNTERS=bank_conflicts build/desk_steps fragments, ./stagecraft time build/desk_steps roles 2048 2048
// 1024
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string_view>

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

}  // namespace

int main(int argc, char** argv) try {
  for (const auto& [name, step] : kSteps) {
    if ((argc != 2 && argc != 5) || name != argv[1]) continue;
    const auto number = [&](int index, const char* what) {
      return argc == 5 ? static_cast<int>(parse_number(what, argv[index], 1, 1 << 20)) : 512;
    };
    const ProductSizes sizes{number(2, "M"), number(3, "N"), number(4, "K")};
    const bool right = check_product<Element>(sizes, [&](const Element* a, const Element* b, Element* d) {
      start_desk_step(step, a, b, d, sizes.m, sizes.n, sizes.k);
      finish_kernel("the kernel");
    });
    return right ? 0 : 1;
  }
  std::fprintf(stderr, "usage: desk_steps fragments|swizzle|register_stages|roles|persistent|launch_control [M N K]\n");
  return kBadOptions;
} catch (const std::invalid_argument& error) {
  std::fprintf(stderr, "desk_steps: %s\n", error.what());
  return kBadOptions;
} catch (const std::exception& error) {
  std::fprintf(stderr, "desk_steps: %s\n", error.what());
  return 1;
}
