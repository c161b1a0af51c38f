// The kernel's configurations, and what is chosen among them, as contenders of a benchmark.
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "contenders.hpp"
#include "stagecraft/hopper_gemm/twin.hpp"
#include "tuning.hpp"

namespace stagecraft {
namespace {

/// What was found here for products that are not in the table.
std::map<std::array<int64_t, 4>, TwinChoice> found_here;

std::array<int64_t, 4> shape_of(const MatrixProduct& p) { return {static_cast<int64_t>(p.type), p.m, p.n, p.k}; }

/// Times the configurations for a product that is not in the table, as the benchmark times cuBLAS's algorithms.
void tune(const std::vector<MatrixProduct>& products) {
  const MatrixProduct& p = products.front();
  cudaDeviceProp device;
  harness::check(cudaGetDeviceProperties(&device, 0), "ask the device for its properties");
  const bool is_emulated = std::string_view(device.name).find("emulated") != std::string_view::npos;
  if (is_emulated || find_tuned(device.name, p.type, p.m, p.n, p.k)) return;  // emulated times mean nothing
  const auto found = find_fastest(products, {.bands = {4, 16}, .repeats = 5, .finalists = 3});
  if (!found) throw std::runtime_error("a configuration is wrong, as printed above; name another with --contenders");
  found_here[shape_of(p)] = found->choice;
}

const AddContender chosen({.name = "twin",
                           .takes = [](const MatrixProduct& p) { return takes(TwinKind::by_threads, p); },
                           .prepare =
                               [](const MatrixProduct& p) {
                                 const auto found = found_here.find(shape_of(p));
                                 return prepare_twin(found != found_here.end() ? found->second : choose_twin(p), p);
                               },
                           .tune = tune});

/// Each configuration by its own name.
const bool all_added = [] {
  for (const TwinKind kind : kTwinKinds) {
    contenders().push_back({.name = name_of(kind),
                            .takes = [kind](const MatrixProduct& p) { return takes(kind, p); },
                            .prepare = [kind](const MatrixProduct& p) { return prepare_twin({.kind = kind}, p); }});
  }
  return true;
}();

}  // namespace
}  // namespace stagecraft
