// Measures kernels beside cuBLAS: the same matrices, in turn, in one process.
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "measurement.hpp"
#include "report.hpp"
#if __has_include(<cublasLt.h>)
#include "cublas_product.hpp"
#define STAGECRAFT_HAS_CUBLAS 1
#endif

namespace {

using namespace stagecraft;
using harness::check;
using harness::DeviceBuffer;

struct Options {
  std::vector<Shape> shapes;
  std::vector<std::string> names;  // of contenders; empty: all
  bool with_cublas = false;
  std::string json, csv;  // files; empty: none
  int repeats = 11, launches = 12, sustained_repeats = 3, sustained_launches = 100, pause_ms = 20, seed = 1;
};

bool measure(const Shape& shape, const Options& options, const GpuState& gpu, Report& report) {
  const auto sets = make_sets(shape, options.seed);
  const auto wanted = [&](const std::string& name) {
    return options.names.empty() || std::find(options.names.begin(), options.names.end(), name) != options.names.end();
  };

  std::vector<Prepared> all;
  std::unique_ptr<DeviceBuffer<__nv_bfloat16>> cublas_c;
#ifdef STAGECRAFT_HAS_CUBLAS
  if (options.with_cublas) {
    static const CublasLt cublas;
    static const cublasLtHandle_t handle = [] {
      cublasLtHandle_t made;
      CublasLt::check(cublas.create(&made), "start");
      return made;
    }();
    static const DeviceBuffer<char> workspace(CublasProduct::kWorkspaceBytes, "cuBLAS's workspace");
    auto product =
        std::make_shared<CublasProduct>(cublas, handle, workspace.data(), shape.type, shape.m, shape.n, shape.k);
    Prepared prepared{.name = "cublas"};
    for (const auto& set : sets) {
      prepared.launches.push_back(
          [product, p = set->product(shape)](cudaStream_t stream) { (*product)(p.a, p.b, p.c, stream); });
    }
    // The fastest algorithm: a first look at each, then the best four again and again in turn.
    std::vector<std::pair<double, int>> times;
    const int look = shape.operations() > 4e12 ? 3 : 8;
    for (int i = 0; i < product->num_algorithms(); ++i) {
      product->choose(i);
      times.emplace_back(time_launches(prepared, look, 5), i);
    }
    std::sort(times.begin(), times.end());
    times.resize(std::min<size_t>(times.size(), 4));
    std::vector<std::vector<double>> again(times.size());
    for (int repeat = 0; repeat < 5; ++repeat) {
      for (size_t i = 0; i < times.size(); ++i) {
        product->choose(times[i].second);
        again[i].push_back(time_launches(prepared, look, 5));
      }
    }
    size_t best = 0;
    for (size_t i = 1; i < again.size(); ++i) {
      if (median(again[i]) < median(again[best])) best = i;
    }
    product->choose(times[best].second);
    report.note_cublas(shape, product->num_algorithms(), product->chosen(), sets.size());
    prepared.launches[0](nullptr);
    cublas_c = std::make_unique<DeviceBuffer<__nv_bfloat16>>(shape.m * shape.n, "cuBLAS's C");
    check(cudaMemcpy(cublas_c->data(), sets[0]->c.data(), cublas_c->bytes(), cudaMemcpyDeviceToDevice), "keep C");
    all.push_back(std::move(prepared));
  }
#endif
  for (const Contender& contender : contenders()) {
    if (!wanted(contender.name) || !contender.takes(sets[0]->product(shape))) continue;
    std::vector<MatrixProduct> products;
    for (const auto& set : sets) products.push_back(set->product(shape));
    if (contender.tune) contender.tune(products);
    Prepared prepared{.name = contender.name};
    for (const MatrixProduct& product : products) prepared.launches.push_back(contender.prepare(product));
    all.push_back(std::move(prepared));
  }

  bool right = true;
  for (Prepared& contender : all) {
    contender.verdict = verify(sets[0]->product(shape), contender, cublas_c ? cublas_c->data() : nullptr);
    report.note_verdict(shape, contender);
    if (contender.name != "cublas") right = right && contender.verdict.right();
  }
  const double tera = shape.operations() * 1e-9;  // TFLOP/s of a product that takes a millisecond
  const int launches = shape.operations() > 4e12 ? 8 : options.launches;
  // In another order each time: what ran just before makes up to 1% of difference.
  std::mt19937 random(options.seed);
  std::vector<Prepared*> order;
  for (Prepared& contender : all) order.push_back(&contender);
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    std::shuffle(order.begin(), order.end(), random);
    for (Prepared* contender : order) {
      contender->burst.push_back(tera / time_launches(*contender, launches, options.pause_ms));
    }
  }
  for (int repeat = 0; repeat < options.sustained_repeats; ++repeat) {
    std::shuffle(order.begin(), order.end(), random);
    for (Prepared* contender : order) {
      contender->sustained.push_back(tera /
                                     time_sustained(*contender, options.sustained_launches, options.pause_ms, gpu));
    }
  }
  for (const Prepared& contender : all) report.note_rates(shape, contender, all[0]);
  return right;
}

const char* const kUsage =
    "usage: ./stagecraft bench [OPTIONS]\n\n"
    "  --types bf16,e4m3       of A and B; default bf16. C is bf16\n"
    "  --shapes MxNxK,...      default: twelve, from 2048 cubed to 16384 cubed\n"
    "  --against cublas|none   default none. The best of the algorithms that cublasLt proposes, in the same run\n"
    "  --contenders NAME,...   the kernels to measure; default all. `twin` is what the host chooses on a Hopper\n"
    "  --json FILE             every single figure, as JSON lines\n"
    "  --csv FILE              the table\n"
    "  --repeats N, --launches N, --sustained N, --sustained-launches N, --pause MS, --seed N\n"
    "                          bursts, products in each; sustained runs, products in each; rest before each; of the "
    "data\n";

Options parse(int argc, char** argv) {
  Options options;
  std::string types = "bf16",
              shapes =
                  "2048x2048x2048,4096x4096x4096,6144x6144x6144,8192x8192x8192,16384x16384x16384,8192x4096x4096,"
                  "4096x14336x4096,4096x4096x14336,8192x8192x1024,1024x8192x8192,128x8192x8192,8191x8189x8184";
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) throw std::invalid_argument(name + " needs a value; --help lists the options");
    const std::string value = argv[i + 1];
    const auto number = [&](int least) { return parse_number(name, value, least); };
    if (name == "--shapes")
      shapes = value;
    else if (name == "--types")
      types = value;
    else if (name == "--contenders")
      options.names = split(value);
    else if (name == "--repeats")
      options.repeats = number(1);
    else if (name == "--launches")
      options.launches = number(1);
    else if (name == "--sustained")
      options.sustained_repeats = number(0);
    else if (name == "--sustained-launches")
      options.sustained_launches = number(1);
    else if (name == "--pause")
      options.pause_ms = number(0);
    else if (name == "--against" && (value == "cublas" || value == "none"))
      options.with_cublas = value == "cublas";
    else if (name == "--against")
      throw std::invalid_argument("--against " + value + ": legal are cublas and none");
    else if (name == "--json")
      options.json = value;
    else if (name == "--csv")
      options.csv = value;
    else if (name == "--seed")
      options.seed = number(0);
    else
      throw std::invalid_argument("there is no option " + name + "; --help lists those that there are");
  }
  options.shapes = parse_shapes(types, shapes);
  const auto known = [](const std::string& name) {
    return std::any_of(contenders().begin(), contenders().end(), [&](const auto& one) { return one.name == name; });
  };
  for (const std::string& name : options.names) {
    if (known(name)) continue;
    std::string all;
    for (const Contender& contender : contenders()) all += (all.empty() ? "" : ", ") + contender.name;
    throw std::invalid_argument("there is no contender " + name + ". There are " + all + ".");
  }
#ifndef STAGECRAFT_HAS_CUBLAS
  if (options.with_cublas) {
    throw std::invalid_argument(
        "--against cublas: cublasLt.h was not there when this was built. Install cuBLAS with the CUDA Toolkit, or "
        "NVIDIA's wheel (python3 -m pip install nvidia-cublas), and configure the build again.");
  }
#endif
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--help") == 0) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  try {
    const Options options = parse(argc, argv);
    const GpuState gpu;
    std::string command;
    for (int i = 0; i < argc; ++i) command += (i > 0 ? " " : "") + std::string(argv[i]);
    Report report(Machine(gpu), options.json, options.csv);
    report.begin({options.repeats, options.launches, options.pause_ms, options.sustained_launches, command});
    bool right = true;
    for (const Shape& shape : options.shapes) right = measure(shape, options, gpu, report) && right;
    if (!right) std::fprintf(stderr, "bench: a result is wrong: see the table\n");
    return right ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench: %s\n", error.what());
    return 2;
  }
}
