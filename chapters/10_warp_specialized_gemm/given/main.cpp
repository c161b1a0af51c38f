// Multiplies two random matrices on the device and checks every element of the product against the host.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "gemm.hpp"
#include "harness/comparison.hpp"
#include "harness/device.hpp"
#include "harness/device_buffer.hpp"
#include "harness/options.hpp"
#include "harness/reference_product.hpp"
#include "verification.hpp"

namespace {

using namespace stagecraft;
using namespace stagecraft::harness;
constexpr int kNotVerified = 1;
constexpr int kBadOptions = 2;

struct Options {
  std::string type, m, n, k, seed;
};

struct Task {
  int64_t m, n, k;
  uint64_t seed;
};

/// Throws when the host does not have the memory, before it allocates any.
template <typename Element>
void require_host_memory(const Task& task) {
  const double m = static_cast<double>(task.m), n = static_cast<double>(task.n), k = static_cast<double>(task.k);
  const double needed = sizeof(Element) * (m * k + n * k) + sizeof(GemmOutput<Element>) * m * n +
                        sizeof(double) * (m * k + n * k + m * n);  // the reference and its copies of A and B
  const double present = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (needed <= present) return;
  char message[200];
  std::snprintf(message, sizeof message,
                "the matrices and the reference product need %.1f GiB of host memory, and this machine has %.1f GiB. "
                "Choose smaller sizes.",
                needed / 0x1p30, present / 0x1p30);
  throw std::invalid_argument(message);
}

/// Runs the product once. Returns whether every element is right, and says so.
template <typename Element>
bool multiply_and_verify(const Task& task) {
  using Operand = GemmOperand<Element>;
  using Output = GemmOutput<Element>;
  const auto [m, n, k, seed] = task;
  const cudaDeviceProp device = current_device();
  require_tcgen05(device);

  const std::vector<Operand> a = random_operand<Element>(m * k, seed);
  const std::vector<Operand> b = random_operand<Element>(n * k, ~seed);
  const DeviceBuffer<Operand> device_a(a, "A");
  const DeviceBuffer<Operand> device_b(b, "B");
  DeviceBuffer<Output> device_c(m * n, "C");
  device_c.poison();

  const auto start = std::chrono::steady_clock::now();
  launch_gemm<Element>(device_a.data(), device_b.data(), device_c.data(), m, n, k);
  check(cudaDeviceSynchronize(), "finish the kernel");
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;

  const std::vector<Output> c = device_c.to_host();
  const std::vector<double> reference = reference_product<Operand>(a, b, m, n, k);
  const Comparison found = compare<Output>(c, reference, gemm_tolerance<Element>(k));

  const std::string what = "gemm " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " " +
                           GemmType<Element>::name + " on " + device.name;
  if (found.wrong > 0) {
    std::printf("%s: WRONG in %zu of %zu elements; the worst is C[%zu][%zu] = %g, which should be %g (seed %llu)\n",
                what.c_str(), found.wrong, c.size(), found.worst / n, found.worst % n,
                static_cast<double>(static_cast<float>(c[found.worst])), reference[found.worst],
                static_cast<unsigned long long>(seed));
    return false;
  }
  std::printf("%s: verified, max relative error %.1e, %.2f s\n", what.c_str(), found.max_relative_error,
              elapsed.count());
  return true;
}

template <typename Element>
int run(const Options& options) {
  const auto size = [](const char* name, const std::string& text) {
    return static_cast<int64_t>(parse_number(name, text, 1, kLargestGemmSize));
  };
  const Task task{.m = size("M", options.m),
                  .n = size("N", options.n),
                  .k = size("K", options.k),
                  .seed = parse_number("--seed", options.seed, 0, UINT64_MAX)};
  require_legal_sizes<Element>(task.m, task.n, task.k);
  require_host_memory<Element>(task);
  return multiply_and_verify<Element>(task) ? 0 : kNotVerified;
}

int run(const Options& options) {
  if (options.type == "bf16") return run<__nv_bfloat16>(options);
  if (options.type == "f16") return run<__half>(options);
  if (options.type == "tf32") return run<tf32>(options);
  if (options.type == "e4m3") return run<__nv_fp8_e4m3>(options);
  if (options.type == "e5m2") return run<__nv_fp8_e5m2>(options);
  throw std::invalid_argument("--type = \"" + options.type +
                              "\" is unknown. Legal are bf16, f16, tf32, e4m3 and e5m2.");
}

}  // namespace

int main(int argc, char** argv) {
  Options options{.type = "bf16", .m = "512", .n = "512", .k = "512", .seed = "1"};
  CLI::App app{"Multiplies random matrices, C (m x n) = A (m x k) * B (n x k) transposed, and checks every element."};
  app.add_option("--type", options.type, "of A and B: bf16, f16, tf32, e4m3, e5m2")
      ->type_name("TYPE")
      ->capture_default_str();
  app.add_option("--m", options.m, "rows of A and C")->type_name("NUMBER")->capture_default_str();
  app.add_option("--n", options.n, "rows of B, columns of C")->type_name("NUMBER")->capture_default_str();
  app.add_option("--k", options.k, "columns of A and B: rows of a multiple of 16 bytes")
      ->type_name("NUMBER")
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of the random matrices")->type_name("NUMBER")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kBadOptions;
  }

  try {
    return run(options);
  } catch (const IllegalProblem& error) {
    std::fprintf(stderr, "gemm: %s\n", error.what());
    return kBadOptions;
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "gemm: %s\n", error.what());
    return kBadOptions;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "gemm: out of host memory. Choose smaller sizes.\n");
    return kNotVerified;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gemm: %s\n", error.what());
    return kNotVerified;
  }
}
