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
#include "harness/random.hpp"
#include "harness/reference_product.hpp"

namespace {

using namespace stagecraft;
using namespace stagecraft::harness;
using Element = __nv_bfloat16;

constexpr int kNotVerified = 1;
constexpr int kBadOptions = 2;

struct Options {
  int64_t m, n, k;
  uint64_t seed;
};

/// Refuses what the host could not even hold, before it is asked to.
void require_host_memory(const Options& options) {
  const double m = static_cast<double>(options.m), n = static_cast<double>(options.n);
  const double k = static_cast<double>(options.k);
  const double needed = sizeof(Element) * (m * k + n * k + m * n) + sizeof(double) * (n * k + m * n);
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
bool multiply_and_verify(const Options& options) {
  const auto [m, n, k, seed] = options;
  const cudaDeviceProp device = current_device();
  require_tcgen05(device);

  const std::vector<Element> a = random_values<Element>(m * k, seed);
  const std::vector<Element> b = random_values<Element>(n * k, ~seed);
  const DeviceBuffer<Element> device_a(a, "A");
  const DeviceBuffer<Element> device_b(b, "B");
  DeviceBuffer<Element> device_c(m * n, "C");
  device_c.poison();

  const auto start = std::chrono::steady_clock::now();
  launch_gemm(device_a.data(), device_b.data(), device_c.data(), m, n, k);
  check(cudaDeviceSynchronize(), "finish the kernel");
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;

  const std::vector<Element> c = device_c.to_host();
  const std::vector<double> reference = reference_product<Element>(a, b, m, n, k);
  const Comparison found = compare<Element>(c, reference, {.k = static_cast<size_t>(k)});

  const std::string what =
      "gemm " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " bf16 on " + device.name;
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

}  // namespace

int main(int argc, char** argv) {
  std::string m = "512", n = "512", k = "512", seed = "1";
  CLI::App app{
      "Multiplies random bf16 matrices, C (m x n) = A (m x k) * B (n x k) transposed, and checks every element."};
  app.add_option("--m", m, "rows of A and C")->type_name("NUMBER")->capture_default_str();
  app.add_option("--n", n, "rows of B, columns of C")->type_name("NUMBER")->capture_default_str();
  app.add_option("--k", k, "columns of A and B, a multiple of 8")->type_name("NUMBER")->capture_default_str();
  app.add_option("--seed", seed, "of the random matrices")->type_name("NUMBER")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kBadOptions;
  }

  try {
    const Options options{.m = static_cast<int64_t>(parse_number("M", m, 1, kLargestGemmSize)),
                          .n = static_cast<int64_t>(parse_number("N", n, 1, kLargestGemmSize)),
                          .k = static_cast<int64_t>(parse_number("K", k, 1, kLargestGemmSize)),
                          .seed = parse_number("--seed", seed, 0, UINT64_MAX)};
    require_legal_sizes(options.m, options.n, options.k);
    require_host_memory(options);
    return multiply_and_verify(options) ? 0 : kNotVerified;
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
