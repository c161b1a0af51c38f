// Launches: overhead in a stream, in a graph and with programmatic dependent launch, when blocks begin, and the clocks.
#include <numeric>

#include "silicon.hpp"

using namespace silicon;

__global__ void empty() {}
__global__ void empty_dependent() {
  asm volatile("griddepcontrol.launch_dependents; griddepcontrol.wait;" ::: "memory");
}

struct Times {
  uint64_t start, stop;  // nanoseconds
};
/// Every block notes when it began and ended.
__global__ void note_times(Times* times, int spin) {
  const uint64_t start = nanoseconds();
  const uint64_t begin = cycles();
  while (cycles() - begin < static_cast<uint64_t>(spin)) {
  }
  if (threadIdx.x == 0) times[blockIdx.x] = {start, nanoseconds()};
}
__global__ void note_times_dependent(Times* times, int spin) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const uint64_t start = nanoseconds();
  const uint64_t begin = cycles();
  while (cycles() - begin < static_cast<uint64_t>(spin)) {
  }
  if (threadIdx.x == 0) times[blockIdx.x] = {start, nanoseconds()};
}

template <typename Kernel, typename... Arguments>
void launch(cudaStream_t stream, bool programmatic, int blocks, int threads, Kernel* kernel, Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = stream;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = programmatic ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), "cudaLaunchKernelEx");
}

cudaStream_t new_stream() {
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return stream;
}

/// Microseconds of each of `count` things that `enqueue` puts into the stream.
std::vector<double> stream_microseconds(cudaStream_t stream, int count, int repeats,
                                        const std::function<void()>& enqueue) {
  cudaEvent_t start, stop;
  check(cudaEventCreate(&start), "cudaEventCreate");
  check(cudaEventCreate(&stop), "cudaEventCreate");
  std::vector<double> samples;
  for (int i = -1; i < repeats; ++i) {
    check(cudaEventRecord(start, stream), "cudaEventRecord");
    enqueue();
    check(cudaEventRecord(stop, stream), "cudaEventRecord");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    float milliseconds;
    check(cudaEventElapsedTime(&milliseconds, start, stop), "cudaEventElapsedTime");
    if (i >= 0) samples.push_back(1000. * milliseconds / count);
  }
  return samples;
}

template <typename Enqueue>
cudaGraphExec_t graph_of(cudaStream_t stream, Enqueue&& enqueue) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  enqueue();
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  return executable;
}

BENCHMARK(overhead) {
  const cudaStream_t stream = new_stream();
  const int count = 500;
  for (const int blocks : {1, multiprocessors(), 8 * multiprocessors()})
    for (const bool programmatic : {false, true}) {
      const auto enqueue = [&] {
        for (int i = 0; i < count; ++i)
          if (programmatic)
            launch(stream, true, blocks, 128, empty_dependent);
          else
            launch(stream, false, blocks, 128, empty);
      };
      const std::string what = std::string("empty kernel, ") + std::to_string(blocks) + " blocks, " +
                               (programmatic ? "programmatic dependent launch" : "stream order");
      report(what + ", in a stream", stream_microseconds(stream, count, 11, enqueue), "us",
             "500 launches between two events; the host's cost of a launch may decide");
      const cudaGraphExec_t graph = graph_of(stream, enqueue);
      report(what + ", in a graph",
             stream_microseconds(stream, count, 11, [&] { check(cudaGraphLaunch(graph, stream), "cudaGraphLaunch"); }),
             "us", "a graph of 500 in a chain");
    }
  std::vector<double> host, round_trip;
  for (int i = 0; i < 21; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    for (int j = 0; j < 100; ++j) empty<<<1, 32, 0, stream>>>();
    const auto end = std::chrono::steady_clock::now();
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    const auto one = std::chrono::steady_clock::now();
    empty<<<1, 32, 0, stream>>>();
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    const auto two = std::chrono::steady_clock::now();
    host.push_back(std::chrono::duration<double, std::micro>(end - begin).count() / 100);
    round_trip.push_back(std::chrono::duration<double, std::micro>(two - one).count());
  }
  report("host time of a launch", host, "us", "100 launches in a row, host clock");
  report("launch and synchronise", round_trip, "us", "host clock");
}

BENCHMARK(gaps) {
  const cudaStream_t stream = new_stream();
  const int blocks = multiprocessors(), kernels = 40;
  DeviceArray<Times> times(static_cast<size_t>(blocks) * kernels);
  for (const bool programmatic : {false, true})
    for (const bool in_graph : {false, true}) {
      const auto enqueue = [&] {
        for (int i = 0; i < kernels; ++i)
          if (programmatic)
            launch(stream, true, blocks, 128, note_times_dependent, times.data() + i * blocks, 40000);
          else
            launch(stream, false, blocks, 128, note_times, times.data() + i * blocks, 40000);
      };
      cudaGraphExec_t graph{};
      if (in_graph) graph = graph_of(stream, enqueue);
      std::vector<double> gaps, skews, drains;
      for (int repeat = 0; repeat < 5; ++repeat) {
        if (in_graph)
          check(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
        else
          enqueue();
        check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        const auto host = times.to_host();
        for (int kernel = 1; kernel < kernels; ++kernel) {
          const auto* before = host.data() + (kernel - 1) * blocks;
          const auto* now = host.data() + kernel * blocks;
          uint64_t last_stop = 0, first_start = ~uint64_t{0}, last_start = 0;
          for (int i = 0; i < blocks; ++i) {
            last_stop = std::max(last_stop, before[i].stop);
            first_start = std::min(first_start, now[i].start);
            last_start = std::max(last_start, now[i].start);
          }
          gaps.push_back(double(static_cast<int64_t>(first_start - last_stop)));
          skews.push_back(double(last_start - first_start));
        }
      }
      const std::string what = std::string(programmatic ? "programmatic dependent launch" : "stream order") +
                               (in_graph ? ", in a graph" : ", in a stream");
      report(
          "gap between kernels, " + what, gaps, "ns",
          "last block's end to the next kernel's first block (programmatic: after griddepcontrol.wait); globaltimer; "
          "kernels of about 20 us");
      report("start skew of 132 blocks, " + what, skews, "ns", "first to last start of a kernel's blocks; globaltimer");
    }
}

/// Blocks that fill an SM each: when each began and ended by the SM's own clock.
__global__ void occupy(Span* spans, uint32_t* sms) {
  extern __shared__ uint8_t shared[];
  const uint64_t start = cycles();
  while (cycles() - start < 5000) {
  }
  if (threadIdx.x == 0) {
    sms[blockIdx.x] = multiprocessor();
    spans[blockIdx.x] = {start, cycles()};
  }
}
BENCHMARK(turnover) {
  const int blocks = multiprocessors() * 16;
  DeviceArray<Span> spans(blocks);
  DeviceArray<uint32_t> sms(blocks);
  check(cudaFuncSetAttribute(occupy, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024), "cudaFuncSetAttribute");
  for (const int threads : {32, 128, 384, 1024}) {
    std::vector<double> samples;
    for (int repeat = 0; repeat < 5; ++repeat) {
      occupy<<<blocks, threads, 200 * 1024>>>(spans.data(), sms.data());
      finish_kernel("occupy");
      const auto span = spans.to_host();
      const auto sm = sms.to_host();
      std::vector<std::vector<Span>> by_sm(1024);
      for (int i = 0; i < blocks; ++i) by_sm[sm[i]].push_back(span[i]);
      for (auto& list : by_sm) {
        std::sort(list.begin(), list.end(), [](const Span& a, const Span& b) { return a.start < b.start; });
        for (size_t i = 1; i < list.size(); ++i)
          samples.push_back(double(static_cast<int64_t>(list[i].start - list[i - 1].stop)));
      }
    }
    report("next block on the same SM, " + std::to_string(threads) + " threads", samples, "cycles",
           "one block an SM by 200 KiB of shared memory; end of one to start of the next");
  }
}
/// In which order a grid of one block an SM reaches the SMs, and how long after the first.
BENCHMARK(start_of_grid) {
  const int blocks = multiprocessors();
  DeviceArray<Times> times(blocks);
  for (const int threads : {32, 384, 1024}) {
    std::vector<double> skews;
    for (int repeat = 0; repeat < 21; ++repeat) {
      note_times<<<blocks, threads>>>(times.data(), 5000);
      finish_kernel("note_times");
      const auto host = times.to_host();
      uint64_t first = ~uint64_t{0}, last = 0;
      for (const Times& time : host) first = std::min(first, time.start), last = std::max(last, time.start);
      skews.push_back(double(last - first));
    }
    report("start skew of a lone grid, " + std::to_string(threads) + " threads a block", skews, "ns",
           "first to last start of 132 blocks; globaltimer");
  }
}

__global__ void read_timer(uint64_t* values, int count) {
  for (int i = 0; i < count; ++i) values[i] = nanoseconds();
}
__global__ void read_clocks(uint64_t* out, uint64_t length) {
  const uint64_t cycle = cycles(), time = nanoseconds();
  uint64_t now;
  do now = nanoseconds();
  while (now - time < length);
  out[0] = cycles() - cycle;
  out[1] = now - time;
}
BENCHMARK(clocks) {
  const int count = 20000;
  DeviceArray<uint64_t> values(count), pair(2);
  read_timer<<<1, 1>>>(values.data(), count);
  finish_kernel("read_timer");
  const auto host = values.to_host();
  std::vector<double> increments;
  for (int i = 1; i < count; ++i)
    if (host[i] != host[i - 1]) increments.push_back(double(host[i] - host[i - 1]));
  report("globaltimer increment", increments, "ns", "differences of successive readings of one thread that are not 0");
  std::vector<double> megahertz;
  for (int i = 0; i < 11; ++i) {
    read_clocks<<<1, 1>>>(pair.data(), 2000000);
    finish_kernel("read_clocks");
    const auto value = pair.to_host();
    megahertz.push_back(1000. * double(value[0]) / double(value[1]));
  }
  report("SM clock, one thread at work", megahertz, "MHz", "clock64 over globaltimer for 2 ms");
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
