// How kernels are timed that the model of the chip is compared with (docs/timing.md). With PLAIN_KERNELS_ONCE=1 each is
// launched once and not timed, which is how the emulated GPU runs them.
#pragma once
#include "silicon.hpp"

namespace silicon {

constexpr size_t kMi = size_t{1} << 20;

inline bool once() {
  const char* const value = std::getenv("PLAIN_KERNELS_ONCE");
  return value != nullptr && std::strcmp(value, "1") == 0;
}

using Launch = std::function<void(cudaStream_t, int)>;  ///< on a stream, with one of several sets of operands

/// Returns a graph of so many launches, which take the sets in turn, after one launch with each of the first `warm`
/// sets. Where each kernel is to run once, runs it, and returns null.
inline cudaGraphExec_t graph_of(cudaStream_t stream, const std::string& name, int launches, int sets, int warm,
                                const Launch& launch) {
  if (!once()) launch(stream, 0);
  check(cudaGetLastError(), name.c_str());
  check(cudaStreamSynchronize(stream), name.c_str());
  for (int set = 1; !once() && set < warm; ++set) launch(stream, set);
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  for (int i = 0; i < (once() ? 1 : launches); ++i) launch(stream, i % sets);
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  if (!once()) return executable;
  std::printf("== %s\n", name.c_str());  // compare_model.py finds what is launched by both lines
  std::fflush(stdout);
  check(cudaGraphLaunch(executable, stream), name.c_str());
  check(cudaStreamSynchronize(stream), name.c_str());
  std::printf("==\n");
  std::fflush(stdout);
  return nullptr;
}

/// Events around a graph of 24 launches, over 24; launches take sets of operands in turn, so that none is in L2.
inline void time(const std::string& name, int sets, const Launch& launch) {
  constexpr int kLaunches = 24;
  cudaStream_t stream;
  check(cudaStreamCreate(&stream), "cudaStreamCreate");
  const cudaGraphExec_t executable = graph_of(stream, name, kLaunches, sets, /*warm=*/1, launch);
  if (executable == nullptr) return;
  cudaEvent_t start, stop;
  check(cudaEventCreate(&start), "cudaEventCreate");
  check(cudaEventCreate(&stop), "cudaEventCreate");
  std::vector<double> microseconds;
  for (int repeat = -2; repeat < 11; ++repeat) {
    check(cudaEventRecord(start, stream), "cudaEventRecord");
    check(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
    check(cudaEventRecord(stop, stream), "cudaEventRecord");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start, stop), "cudaEventElapsedTime");
    if (repeat >= 0) microseconds.push_back(milliseconds * 1e3 / kLaunches);
  }
  report(name, microseconds, "us", "a graph of 24 launches in a chain, that take several sets of operands in turn");
}

inline int sets_of(size_t bytes) {
  return once() ? 1 : static_cast<int>(std::min<size_t>(24, (size_t{256} << 20) / bytes + 2));
}

template <typename T>
std::vector<DeviceArray<T>> arrays(int sets, size_t count) {
  std::vector<DeviceArray<T>> all;
  for (int i = 0; i < sets; ++i) all.emplace_back(count);
  return all;
}

inline std::vector<uint32_t> numbers(size_t count, uint32_t seed = 7) {
  std::vector<uint32_t> all(count);
  for (uint32_t& each : all) each = (seed = seed * 1664525u + 1013904223u) >> 8;
  return all;
}

/// Words that kernels read and write, as many sets as L2 cannot hold.
struct Operands {
  int sets;
  std::vector<DeviceArray<float>> in, out;
  Operands(size_t words_in, size_t words_out)
      : sets(sets_of(4 * (words_in + words_out))),
        in(arrays<float>(sets, words_in)),
        out(arrays<float>(sets, words_out)) {}
  template <typename T>
  const T* from(int set) const {
    return reinterpret_cast<const T*>(in[set].data());
  }
  template <typename T>
  T* to(int set) const {
    return reinterpret_cast<T*>(out[set].data());
  }
};

}  // namespace silicon
