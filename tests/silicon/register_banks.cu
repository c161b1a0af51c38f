// What reading registers of one bank costs. ptxas chooses registers, so the program writes its own: it takes the
// machine code of kernels below from the file NAME.cubin beside it, made of this source (nvcc -cubin), and puts other
// registers and reuse flags into their instructions. Only registers that those instructions write are read and written,
// so nothing else of a kernel changes; what it computes means nothing.
#include <cuda.h>
#include <elf.h>

#include <fstream>
#include <iterator>

#include "silicon.hpp"

using namespace silicon;

constexpr int kAccumulators = 64, kTurns = 256, kRepeats = 11;

// ---- Kernels whose registers are replaced ---------------------------------------------------------------------------

/// Two passes, of which the second is timed. `step(i)` is one of 128 steps of a turn.
template <typename Step>
__device__ __forceinline__ void run_steps(Span* spans, Step step) {
  uint64_t start = 0, stop = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    __syncthreads();
    start = cycles();
#pragma unroll 1
    for (int turn = 0; turn < kTurns; ++turn) {
#pragma unroll
      for (int i = 0; i < 2 * kAccumulators; ++i) step(i);
    }
    stop = cycles();
  }
  if (lane() == 0) spans[threadIdx.x / 32] = {start, stop};
}

template <typename T, int N>
__device__ __forceinline__ void keep(const T (&values)[N], T* sink) {
  for (int i = 0; i < N; ++i) sink[i * blockDim.x + threadIdx.x] = values[i];
}

template <typename T, int N>
__device__ __forceinline__ void fill(T (&values)[N], const T* source) {
  for (int i = 0; i < N; ++i) values[i] = source[i * blockDim.x + threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(512) run_ffma(Span* spans, float* data) {
  float values[kAccumulators];
  fill(values, data);
  run_steps(spans, [&](int i) {
    float& sum = values[i % kAccumulators];
    asm volatile("fma.rn.f32 %0, %1, %2, %0;"
                 : "+f"(sum)
                 : "f"(values[(i + 17) % kAccumulators]), "f"(values[(i + 30) % kAccumulators]));
  });
  keep(values, data);
}

extern "C" __global__ void __launch_bounds__(512) run_fadd(Span* spans, float* data) {
  float values[kAccumulators];
  fill(values, data);
  run_steps(spans, [&](int i) {
    asm volatile("add.rn.f32 %0, %1, %2;"
                 : "=f"(values[i % kAccumulators])
                 : "f"(values[(i + 17) % kAccumulators]), "f"(values[(i + 30) % kAccumulators]));
  });
  keep(values, data);
}

extern "C" __global__ void __launch_bounds__(512) run_lop3(Span* spans, int* data) {
  int values[kAccumulators];
  fill(values, data);
  run_steps(spans, [&](int i) {
    int& value = values[i % kAccumulators];
    asm volatile("lop3.b32 %0, %1, %2, %0, 0x96;"
                 : "+r"(value)
                 : "r"(values[(i + 17) % kAccumulators]), "r"(values[(i + 30) % kAccumulators]));
  });
  keep(values, data);
}

extern "C" __global__ void __launch_bounds__(512) run_imad(Span* spans, int* data) {
  int values[kAccumulators];
  fill(values, data);
  run_steps(spans, [&](int i) {
    int& value = values[i % kAccumulators];
    asm volatile("mad.lo.s32 %0, %1, %2, %0;"
                 : "+r"(value)
                 : "r"(values[(i + 17) % kAccumulators]), "r"(values[(i + 30) % kAccumulators]));
  });
  keep(values, data);
}

/// Sums of floats and, in turn, logic on registers of its own, which are not replaced.
extern "C" __global__ void __launch_bounds__(512) ffma_and_logic(Span* spans, float* data) {
  float values[kAccumulators];
  fill(values, data);
  int others[8] = {};
  const int by = threadIdx.x;
  run_steps(spans, [&](int i) {
    float& sum = values[i / 2 % kAccumulators];
    if (i % 2 == 0) {
      asm volatile("fma.rn.f32 %0, %1, %2, %0;"
                   : "+f"(sum)
                   : "f"(values[(i / 2 + 17) % kAccumulators]), "f"(values[(i / 2 + 30) % kAccumulators]));
    } else {
      asm volatile("lop3.b32 %0, %0, %1, 0x1234, 0xe8;" : "+r"(others[i / 2 % 8]) : "r"(by));
    }
  });
  keep(values, data);
  for (const int each : others) data[threadIdx.x] += each;
}

/// The same with a load of 16 bytes of shared memory for every eight sums.
extern "C" __global__ void __launch_bounds__(512) ffma_and_loads(Span* spans, float* data) {
  __shared__ float4 shared[512];
  shared[threadIdx.x] = {};
  constexpr int kFewer = 40;
  float values[kFewer];
  fill(values, data);
  float4 loaded[4] = {};
  const uint32_t address = shared_address(shared) + (threadIdx.x & 7) * 16;
  run_steps(spans, [&](int i) {
    float& sum = values[i % kFewer];
    if (i % 9 == 8) {
      float4& to = loaded[i / 9 % 4];
      asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(to.x), "=f"(to.y), "=f"(to.z), "=f"(to.w)
                   : "r"(address));
    } else {
      asm volatile("fma.rn.f32 %0, %1, %2, %0;"
                   : "+f"(sum)
                   : "f"(values[(i + 17) % kFewer]), "f"(values[(i + 30) % kFewer]));
    }
  });
  keep(values, data);
  for (const float4& each : loaded) data[threadIdx.x] += each.x + each.y + each.z + each.w;
}

// ---- Machine code ---------------------------------------------------------------------------------------------------

/// Where registers are in an instruction of three of them: Jia et al., arXiv 1804.06826, and what nvdisasm prints.
struct Instruction {
  uint64_t low, high;

  uint32_t opcode() const { return low & 0xfff; }
  uint32_t to() const { return low >> 16 & 255; }
  void set(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t kept) {
    low = (low & ~(uint64_t{0xffffff} << 16)) | uint64_t{to} << 16 | uint64_t{a} << 24;
    low = (low & ~(uint64_t{255} << 32)) | uint64_t{b} << 32;
    if (has_c) high = (high & ~uint64_t{255}) | c;
    high = (high & ~(uint64_t{7} << 58)) | uint64_t{kept} << 58;
    high = (high & ~(uint64_t{15} << 41)) | uint64_t{1} << 41;  // the next issues a cycle later
  }
  bool has_c = true;
};

struct Registers {
  uint32_t to, a, b, c;
  uint32_t kept = 0;  ///< reuse flags: 1 of a, 2 of b, 4 of c
};

/// Returns the registers of the i-th instruction, from those that are even and odd.
using Pattern = Registers (*)(int i, const std::vector<uint32_t>& even, const std::vector<uint32_t>& odd);

uint32_t at(const std::vector<uint32_t>& of, int i) { return of[static_cast<size_t>(i) % of.size()]; }

struct NamedPattern {
  const char* name;
  Pattern registers;
};

using Bank = const std::vector<uint32_t>&;

// Numbers are distinct registers of one and of the other bank.
const NamedPattern kPatterns[] = {
    {"1 + 1: a, c one register",
     [](int i, Bank e, Bank o) {
       return Registers{at(e, i), at(e, i), at(o, i + 9), at(e, i)};
     }},
    {"1 + 0: all one register",
     [](int i, Bank e, Bank) {
       return Registers{at(e, i), at(e, i), at(e, i), at(e, i)};
     }},
    {"2 + 1",
     [](int i, Bank e, Bank o) {
       return Registers{at(e, i), at(e, i + 7), at(o, i + 9), at(e, i)};
     }},
    {"2 + 1, written to the other bank",
     [](int i, Bank e, Bank o) {
       return Registers{at(o, i), at(e, i + 7), at(o, i + 9), at(e, i)};
     }},
    {"2 + 0: a, c one register",
     [](int i, Bank e, Bank) {
       return Registers{at(e, i), at(e, i), at(e, i + 9), at(e, i)};
     }},
    {"3 + 0",
     [](int i, Bank e, Bank) {
       return Registers{at(e, i), at(e, i + 7), at(e, i + 13), at(e, i)};
     }},
    {"2 + 1, 1 + 2 in turn",
     [](int i, Bank e, Bank o) {
       return i % 2 ? Registers{at(o, i), at(e, i + 7), at(o, i + 9), at(o, i)}
                    : Registers{at(e, i), at(e, i + 7), at(o, i + 9), at(e, i)};
     }},
    {"b kept for 8, leaves 1 + 1",
     [](int i, Bank e, Bank o) {
       return Registers{at(e, i), at(o, i + 7), at(e, i / 8), at(e, i), i % 8 == 7 ? 0u : 2u};
     }},
    {"b kept for 8, leaves 2 + 0",
     [](int i, Bank e, Bank o) {
       return Registers{at(e, i), at(e, i + 7), at(o, i / 8), at(e, i), i % 8 == 7 ? 0u : 2u};
     }},
    {"b kept for 8 of the bank of both",
     [](int i, Bank e, Bank) {
       return Registers{at(e, i), at(e, i + 7), at(e, i / 8 + 11), at(e, i), i % 8 == 7 ? 0u : 2u};
     }},
    {"a kept for 8, leaves 1 + 1",
     [](int i, Bank e, Bank o) {
       return Registers{at(e, i), at(e, i / 8), at(o, i + 7), at(e, i), i % 8 == 7 ? 0u : 1u};
     }},
    {"a kept for 8, leaves 2 + 0",
     [](int i, Bank e, Bank o) {
       return Registers{at(e, i), at(o, i / 8), at(e, i + 7), at(e, i), i % 8 == 7 ? 0u : 1u};
     }},
    {"b kept for 2, leaves 1 + 1",
     [](int i, Bank e, Bank o) {
       return Registers{at(e, i), at(o, i + 7), at(e, i / 2 + 5), at(e, i), i % 2 == 1 ? 0u : 2u};
     }},
    {"b kept for 8, leaves 2 + 0 and 0 + 2 in turn",
     [](int i, Bank e, Bank o) {
       return i % 2 ? Registers{at(e, i), at(e, i + 7), at(o, i / 8), at(e, i), i % 8 == 7 ? 0u : 2u}
                    : Registers{at(o, i), at(o, i + 7), at(o, i / 8), at(o, i), i % 8 == 7 ? 0u : 2u};
     }},
    {"2 + 0 twice, 0 + 2 twice",
     [](int i, Bank e, Bank o) {
       Bank of = i / 2 % 2 ? o : e;
       return Registers{at(of, i), at(of, i), at(of, i + 9), at(of, i)};
     }},
    {"2 + 0 four times, 0 + 2 four times",
     [](int i, Bank e, Bank o) {
       Bank of = i / 4 % 2 ? o : e;
       return Registers{at(of, i), at(of, i), at(of, i + 9), at(of, i)};
     }},
    {"2 + 0 eight times, 0 + 2 eight times",
     [](int i, Bank e, Bank o) {
       Bank of = i / 8 % 2 ? o : e;
       return Registers{at(of, i), at(of, i), at(of, i + 9), at(of, i)};
     }},
    {"1 + 1 and 2 + 1 in turn",
     [](int i, Bank e, Bank o) {
       return Registers{at(e, i), at(e, i % 2 ? i + 7 : i), at(o, i + 9), at(e, i)};
     }},
    {"1 + 1 and 3 + 0 in turn",
     [](int i, Bank e, Bank o) {
       return i % 2 ? Registers{at(e, i), at(e, i + 7), at(e, i + 13), at(e, i)}
                    : Registers{at(e, i), at(e, i), at(o, i + 9), at(e, i)};
     }},
    {"1 + 0 and 2 + 0 in turn",
     [](int i, Bank e, Bank) {
       return Registers{at(e, i), at(e, i), at(e, i % 2 ? i + 9 : i), at(e, i)};
     }},
    {"registers of four: 0 1 2 mod 4",
     [](int i, Bank e, Bank o) {
       // Would matter if there were four banks.
       std::vector<uint32_t> zero, two, one;
       for (uint32_t r : e) (r % 4 == 0 ? zero : two).push_back(r);
       for (uint32_t r : o)
         if (r % 4 == 1) one.push_back(r);
       return Registers{at(zero, i), at(two, i + 7), at(one, i + 9), at(zero, i)};
     }},
    {"registers of four: 0 0 1 mod 4",
     [](int i, Bank e, Bank o) {
       std::vector<uint32_t> zero, one;
       for (uint32_t r : e)
         if (r % 4 == 0) zero.push_back(r);
       for (uint32_t r : o)
         if (r % 4 == 1) one.push_back(r);
       return Registers{at(zero, i), at(zero, i + 5), at(one, i + 3), at(zero, i)};
     }},
};

std::vector<char> read_cubin() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  const std::string name = std::string(path, length > 0 ? length : 0) + ".cubin";
  std::ifstream file(name, std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (bytes.size() >= sizeof(Elf64_Ehdr)) return bytes;
  std::printf("{\"error\": \"%s: not there, see record.sh\"}\n", name.c_str());
  std::_Exit(1);
}

/// Replaces the registers of all instructions of a kernel with the opcode that is the most frequent of `opcodes`.
/// Returns how many there are.
int replace(std::vector<char>& cubin, const std::string& kernel, std::initializer_list<uint32_t> opcodes, bool has_c,
            Pattern pattern) {
  const auto* const header = reinterpret_cast<const Elf64_Ehdr*>(cubin.data());
  const auto* const sections = reinterpret_cast<const Elf64_Shdr*>(cubin.data() + header->e_shoff);
  const char* const names = cubin.data() + sections[header->e_shstrndx].sh_offset;
  for (int s = 0; s < header->e_shnum; ++s) {
    if (names + sections[s].sh_name != ".text." + kernel) continue;
    char* const code = cubin.data() + sections[s].sh_offset;
    std::vector<char*> places;
    std::vector<uint32_t> even, odd;
    for (size_t i = 0; i + 16 <= sections[s].sh_size; i += 16) {
      Instruction instruction;
      std::memcpy(&instruction, code + i, 16);
      if (std::find(opcodes.begin(), opcodes.end(), instruction.opcode()) == opcodes.end()) continue;
      places.push_back(code + i);
      std::vector<uint32_t>& bank = instruction.to() % 2 ? odd : even;
      if (std::find(bank.begin(), bank.end(), instruction.to()) == bank.end()) bank.push_back(instruction.to());
    }
    if (even.size() < 16 || odd.size() < 16) return 0;
    for (size_t i = 0; i < places.size(); ++i) {
      Instruction instruction;
      std::memcpy(&instruction, places[i], 16);
      const Registers chosen = pattern(static_cast<int>(i), even, odd);
      instruction.has_c = has_c;
      instruction.set(chosen.to, chosen.a, chosen.b, chosen.c, chosen.kept);
      std::memcpy(places[i], &instruction, 16);
    }
    return static_cast<int>(places.size());
  }
  return 0;
}

/// Cycles of the second pass. A warp may read the clock while it waits at the barrier before it, so the last start
/// counts.
double cycles_of_pass(const std::vector<Span>& spans, int warps) {
  uint64_t start = 0, stop = 0;
  for (int warp = 0; warp < warps; ++warp) {
    start = std::max(start, spans[warp].start);
    stop = std::max(stop, spans[warp].stop);
  }
  return static_cast<double>(stop - start);
}

/// Cycles of a turn over the replaced instructions of a turn, for 1, 2 and 4 warps of each sub-partition.
void measure(const char* kernel, std::initializer_list<uint32_t> opcodes, bool has_c = true) {
  check(cudaFree(nullptr), "cudaFree");
  const std::vector<char> original = read_cubin();
  DeviceArray<Span> spans(32);
  DeviceArray<float> data(512 * kAccumulators);
  for (const NamedPattern& pattern : kPatterns) {
    std::vector<char> cubin = original;
    const int replaced = replace(cubin, kernel, opcodes, has_c, pattern.registers);
    CUmodule module;
    CUfunction function;
    if (replaced == 0 || cuModuleLoadData(&module, cubin.data()) != CUDA_SUCCESS ||
        cuModuleGetFunction(&function, module, kernel) != CUDA_SUCCESS) {
      std::printf("{\"name\": \"%s\", \"error\": \"%d instructions replaced, not loaded\"}\n", kernel, replaced);
      return;
    }
    for (const int warps : {1, 2, 3, 4}) {
      std::vector<double> samples;
      for (int repeat = 0; repeat < kRepeats; ++repeat) {
        Span* to = spans.data();
        float* values = data.data();
        void* arguments[] = {&to, &values};
        if (cuLaunchKernel(function, 1, 1, 1, warps * 128, 1, 1, 0, nullptr, arguments, nullptr) != CUDA_SUCCESS) {
          std::printf("{\"name\": \"%s\", \"error\": \"not launched\"}\n", kernel);
          return;
        }
        finish_kernel(kernel);
        samples.push_back(cycles_of_pass(spans.to_host(), warps * 4) / (double{kTurns} * replaced * warps));
      }
      report(std::string(kernel) + ", " + pattern.name + ", " + std::to_string(warps) + " warps", samples, "cycles",
             "a turn of 128 steps over its " + std::to_string(replaced) + " replaced instructions, a sub-partition");
    }
    cuModuleUnload(module);
  }
}

BENCHMARK(banks_of_ffma) { measure("run_ffma", {0x223}); }
BENCHMARK(banks_of_fadd) { measure("run_fadd", {0x221}, false); }
BENCHMARK(banks_of_lop3) { measure("run_lop3", {0x212}); }
BENCHMARK(banks_of_imad) { measure("run_imad", {0x224}); }
BENCHMARK(banks_of_ffma_with_logic) { measure("ffma_and_logic", {0x223}); }
BENCHMARK(banks_of_ffma_with_loads) { measure("ffma_and_loads", {0x223}); }

int main(int argc, char** argv) { return silicon::main(argc, argv); }
