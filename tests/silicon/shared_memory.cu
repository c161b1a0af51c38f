// Shared memory: latency and rate by width, bank conflicts, ldmatrix and stmatrix, atomics.

#include "silicon.hpp"

using namespace silicon;

constexpr int kBytes = 32768;

/// The address of a lane's word, when `ways` lanes share each bank.
__device__ inline uint32_t conflict_offset(int ways) { return lane() % ways * 128 + lane() / ways * 4; }

/// A chain of loads: each word holds its own address. `Ways` lanes meet in a bank.
template <int Width, int Ways = 1>
struct LoadChain {
  uint32_t address;
  __device__ LoadChain(uint32_t, uint8_t* shared) {
    address = shared_address(shared) + (Ways == 1 ? lane() * Width : conflict_offset(Ways));
    *reinterpret_cast<uint32_t*>(shared + (address - shared_address(shared))) = address;
    __syncthreads();
  }
  __device__ void step(int) {
    uint32_t rest[3];
    if constexpr (Width == 4) asm volatile("ld.volatile.shared.b32 %0, [%0];" : "+r"(address)::"memory");
    if constexpr (Width == 8)
      asm volatile("ld.volatile.shared.v2.b32 {%0, %1}, [%0];" : "+r"(address), "=r"(rest[0])::"memory");
    if constexpr (Width == 16)
      asm volatile("ld.volatile.shared.v4.b32 {%0, %1, %2, %3}, [%0];"
                   : "+r"(address), "=r"(rest[0]), "=r"(rest[1]), "=r"(rest[2])::"memory");
  }
  __device__ uint32_t result() { return address; }
};

/// Independent loads of each lane, `Ways` of which meet in a bank; -1 stands for all lanes at one word.
template <int Width, int Ways = 1>
struct Loads {
  uint32_t address, sum = 0, v[4];
  __device__ Loads(uint32_t, uint8_t* shared) {
    address = shared_address(shared) + (Ways == -1 ? 0 : Ways == 1 ? threadIdx.x % 256 * Width : conflict_offset(Ways));
    for (int i = threadIdx.x; i < kBytes / 4; i += blockDim.x) reinterpret_cast<uint32_t*>(shared)[i] = i;
    for (uint32_t& word : v) word = 0;
    __syncthreads();
  }
  __device__ void step(int) {
    if constexpr (Width == 4) asm volatile("ld.volatile.shared.b32 %0, [%1];" : "=r"(v[0]) : "r"(address) : "memory");
    if constexpr (Width == 8)
      asm volatile("ld.volatile.shared.v2.b32 {%0, %1}, [%2];" : "=r"(v[0]), "=r"(v[1]) : "r"(address) : "memory");
    if constexpr (Width == 16)
      asm volatile("ld.volatile.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                   : "r"(address)
                   : "memory");
  }
  __device__ uint32_t result() { return v[0] + v[1] + v[2] + v[3]; }
};

template <int Width, int Ways = 1>
struct Stores {
  uint32_t address, value;
  __device__ Stores(uint32_t seed, uint8_t* shared) : value(seed + lane()) {
    address = shared_address(shared) + (Ways == 1 ? threadIdx.x % 256 * Width : conflict_offset(Ways));
  }
  __device__ void step(int) {
    if constexpr (Width == 4) asm volatile("st.volatile.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
    if constexpr (Width == 8)
      asm volatile("st.volatile.shared.v2.b32 [%0], {%1, %1};" ::"r"(address), "r"(value) : "memory");
    if constexpr (Width == 16)
      asm volatile("st.volatile.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(value) : "memory");
  }
  __device__ uint32_t result() { return value; }
};

/// A store and a load of the word just stored, in a chain.
struct StoreThenLoad {
  uint32_t address, value;
  __device__ StoreThenLoad(uint32_t seed, uint8_t* shared) : value(seed) {
    address = shared_address(shared) + threadIdx.x * 4;
  }
  __device__ void step(int) {
    asm volatile("st.volatile.shared.b32 [%1], %0; ld.volatile.shared.b32 %0, [%1];"
                 : "+r"(value)
                 : "r"(address)
                 : "memory");
  }
  __device__ uint32_t result() { return value; }
};

/// The same through generic addresses, whose memory the multiprocessor finds out.
struct GenericChain {
  uint64_t address;
  __device__ GenericChain(uint32_t, uint8_t* shared) {
    uint64_t* const word = reinterpret_cast<uint64_t*>(shared) + lane();
    *word = address = reinterpret_cast<uint64_t>(word);
    __syncthreads();
  }
  __device__ void step(int) { asm volatile("ld.volatile.b64 %0, [%0];" : "+l"(address)::"memory"); }
  __device__ uint32_t result() { return static_cast<uint32_t>(address); }
};

template <int Width>
struct GenericLoads {
  uint64_t address;
  uint32_t v[4] = {};
  __device__ GenericLoads(uint32_t, uint8_t* shared) {
    for (int i = threadIdx.x; i < kBytes / 4; i += blockDim.x) reinterpret_cast<uint32_t*>(shared)[i] = i;
    address = reinterpret_cast<uint64_t>(shared + threadIdx.x % 256 * Width);
    __syncthreads();
  }
  __device__ void step(int) {
    if constexpr (Width == 4) asm volatile("ld.volatile.b32 %0, [%1];" : "=r"(v[0]) : "l"(address) : "memory");
    if constexpr (Width == 16)
      asm volatile("ld.volatile.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                   : "l"(address)
                   : "memory");
  }
  __device__ uint32_t result() { return v[0] + v[1] + v[2] + v[3]; }
};

/// Transposes 8 x 8 of 16 bits in registers.
struct MovmatrixChain {
  uint32_t value;
  __device__ MovmatrixChain(uint32_t seed, uint8_t*) : value(seed + lane()) {}
  __device__ void step(int) { asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(value)); }
  __device__ uint32_t result() { return value; }
};

/// Each word of shared memory holds one address, so a row that ldmatrix returns is a row's address again.
template <int Count>
struct LdmatrixChain {
  uint32_t address;
  __device__ LdmatrixChain(uint32_t, uint8_t* shared) {
    for (int i = threadIdx.x; i < kBytes / 4; i += blockDim.x)
      reinterpret_cast<uint32_t*>(shared)[i] = shared_address(shared) + 16 * (i / 4 % 32);
    __syncthreads();
    address = shared_address(shared) + 16 * lane();
  }
  __device__ void step(int) {
    uint32_t rest[3];
    if constexpr (Count == 1)
      asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%0];" : "+r"(address)::"memory");
    if constexpr (Count == 2)
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%0];" : "+r"(address), "=r"(rest[0])::"memory");
    if constexpr (Count == 4)
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%0];"
                   : "+r"(address), "=r"(rest[0]), "=r"(rest[1]), "=r"(rest[2])::"memory");
  }
  __device__ uint32_t result() { return address; }
};

/// `Stride` is the distance of rows in bytes: 16 has no conflicts, 128 has all rows in the same four banks. Each step
/// has another address and every result is used, or ptxas would leave loads out.
template <int Count, int Stride, bool Transposed = false>
struct Ldmatrix {
  uint32_t address, sum = 0;
  __device__ Ldmatrix(uint32_t, uint8_t* shared) : address(shared_address(shared) + lane() * Stride) {}
  __device__ void step(int i) {
    uint32_t v[4] = {};
    const uint32_t row = address + i * 128;
    if constexpr (Count == 1)
      asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(v[0]) : "r"(row) : "memory");
    if constexpr (Count == 2)
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                   : "=r"(v[0]), "=r"(v[1])
                   : "r"(row)
                   : "memory");
    if constexpr (Count == 4 && !Transposed)
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                   : "r"(row)
                   : "memory");
    if constexpr (Count == 4 && Transposed)
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                   : "r"(row)
                   : "memory");
    sum ^= v[0] ^ v[1] ^ v[2] ^ v[3];
  }
  __device__ uint32_t result() { return sum; }
};

template <int Count, int Stride>
struct Stmatrix {
  uint32_t address, value;
  __device__ Stmatrix(uint32_t seed, uint8_t* shared)
      : address(shared_address(shared) + threadIdx.x / 32 % 8 * 512 + lane() * Stride), value(seed + lane()) {}
  __device__ void step(int) {
    if constexpr (Count == 1)
      asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(address), "r"(value) : "memory");
    if constexpr (Count == 4)
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(value)
                   : "memory");
  }
  __device__ uint32_t result() { return value; }
};

struct StmatrixThenLoad {
  uint32_t address, word, value;
  __device__ StmatrixThenLoad(uint32_t seed, uint8_t* shared)
      : address(shared_address(shared) + lane() * 16), word(shared_address(shared) + lane() * 4), value(seed) {}
  __device__ void step(int) {
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%1], {%0}; ld.volatile.shared.b32 %0, [%2];"
                 : "+r"(value)
                 : "r"(address), "r"(word)
                 : "memory");
  }
  __device__ uint32_t result() { return value; }
};

// Atomics by text. The seed is 1 at run time: a compiler that knew of the one word would add up within the warp first.
#define ATOMIC(NAME, TEXT)                                                                          \
  template <bool SameWord>                                                                          \
  struct NAME {                                                                                     \
    uint32_t address, value;                                                                        \
    __device__ NAME(uint32_t seed, uint8_t* shared)                                                 \
        : address(shared_address(shared) + threadIdx.x * (SameWord ? seed - 1 : 4)), value(seed) {} \
    __device__ void step(int) { asm volatile(TEXT : "+r"(value) : "r"(address) : "memory"); }       \
    __device__ uint32_t result() { return value; }                                                  \
  };
ATOMIC(AtomAdd, "atom.shared.add.u32 %0, [%1], %0;")
ATOMIC(AtomExch, "atom.shared.exch.b32 %0, [%1], %0;")
ATOMIC(AtomCas, "atom.shared.cas.b32 %0, [%1], %0, %0;")
ATOMIC(AtomAddF32, "{.reg .f32 f; mov.b32 f, %0; atom.shared.add.f32 f, [%1], f; mov.b32 %0, f;}")
ATOMIC(RedAdd, "red.shared.add.u32 [%1], %0;")

BENCHMARK(load_latency) {
  report("ld.shared 4 bytes latency", cycles_per_step<LoadChain<4>>(32, kBytes), "cycles", "chain, no conflicts");
  report("ld.shared 8 bytes latency", cycles_per_step<LoadChain<8>>(32, kBytes), "cycles", "chain, no conflicts");
  report("ld.shared 16 bytes latency", cycles_per_step<LoadChain<16>>(32, kBytes), "cycles", "chain, no conflicts");
  report("st.shared then ld.shared", cycles_per_step<StoreThenLoad>(32, kBytes), "cycles", "the word just stored");
}
template <int Ways>
void conflicts() {
  const std::string ways = std::to_string(Ways) + (Ways == 1 ? " way" : " ways");
  report("ld.shared 4 bytes latency, " + ways, cycles_per_step<LoadChain<4, Ways>>(32, kBytes), "cycles",
         ways + " in each bank that is used");
  report("ld.shared 4 bytes rate, " + ways, sm_cycles_per_step<Loads<4, Ways>>(512, kBytes),
         "cycles per warp instruction and SM", "16 warps", Ways);
  report("st.shared 4 bytes rate, " + ways, sm_cycles_per_step<Stores<4, Ways>>(512, kBytes),
         "cycles per warp instruction and SM", "16 warps", Ways);
}
BENCHMARK(bank_conflicts) {
  conflicts<1>();
  conflicts<2>();
  conflicts<4>();
  conflicts<8>();
  conflicts<16>();
  conflicts<32>();
}
template <int Width>
void rates() {
  const std::string width = std::to_string(Width) + " bytes";
  report("ld.shared " + width + " rate", sm_cycles_per_step<Loads<Width>>(512, kBytes),
         "cycles per warp instruction and SM", "16 warps, no conflicts; published is 128 bytes a cycle", Width / 4);
  report("ld.shared " + width + " rate, 1 warp", cycles_per_step<Loads<Width>>(32, kBytes),
         "cycles per warp instruction", "no conflicts");
  report("st.shared " + width + " rate", sm_cycles_per_step<Stores<Width>>(512, kBytes),
         "cycles per warp instruction and SM", "16 warps, no conflicts; published is 128 bytes a cycle", Width / 4);
}
BENCHMARK(access_rate) {
  rates<4>();
  rates<8>();
  rates<16>();
  report("ld.shared 4 bytes rate, one word", sm_cycles_per_step<Loads<4, -1>>(512, kBytes),
         "cycles per warp instruction and SM", "16 warps, all lanes at one word", 1);
  report("ld.shared 16 bytes rate, one address", sm_cycles_per_step<Loads<16, -1>>(512, kBytes),
         "cycles per warp instruction and SM", "16 warps, all lanes at one address");
}
BENCHMARK(matrices) {
  report("ldmatrix.x1 latency", cycles_per_step<LdmatrixChain<1>>(32, kBytes), "cycles", "chain");
  report("ldmatrix.x2 latency", cycles_per_step<LdmatrixChain<2>>(32, kBytes), "cycles", "chain");
  report("ldmatrix.x4 latency", cycles_per_step<LdmatrixChain<4>>(32, kBytes), "cycles", "chain");
  const auto rate = [](const char* name, std::vector<double> samples, const char* how, double published) {
    report(name, std::move(samples), "cycles per warp instruction and SM", how, published);
  };
  rate("ldmatrix.x1 rate", sm_cycles_per_step<Ldmatrix<1, 16>>(512, kBytes), "16 warps, no conflicts", 1);
  rate("ldmatrix.x2 rate", sm_cycles_per_step<Ldmatrix<2, 16>>(512, kBytes), "16 warps, no conflicts", 2);
  rate("ldmatrix.x4 rate", sm_cycles_per_step<Ldmatrix<4, 16>>(512, kBytes), "16 warps, no conflicts", 4);
  rate("ldmatrix.x4.trans rate", sm_cycles_per_step<Ldmatrix<4, 16, true>>(512, kBytes), "16 warps, no conflicts", 4);
  rate("ldmatrix.x4 rate, rows 128 bytes apart", sm_cycles_per_step<Ldmatrix<4, 128>>(512, kBytes),
       "16 warps, 8 rows in the same banks", 32);
  rate("stmatrix.x1 rate", sm_cycles_per_step<Stmatrix<1, 16>>(512, kBytes), "16 warps, no conflicts", 1);
  rate("stmatrix.x4 rate", sm_cycles_per_step<Stmatrix<4, 16>>(512, kBytes), "16 warps, no conflicts", 4);
  rate("stmatrix.x4 rate, rows 128 bytes apart", sm_cycles_per_step<Stmatrix<4, 128>>(512, kBytes),
       "16 warps, 8 rows in the same banks", 32);
  report("stmatrix.x1 then ld.shared", cycles_per_step<StmatrixThenLoad>(32, kBytes), "cycles", "words just stored");
}
template <template <bool> typename Atomic>
void atomic(const std::string& name) {
  report(name + " latency", cycles_per_step<Atomic<false>, 16, 48>(32, kBytes), "cycles",
         "chain, a word for each lane");
  report(name + " latency, one word", cycles_per_step<Atomic<true>, 16, 48>(32, kBytes), "cycles",
         "chain, 32 lanes at one word");
  report(name + " rate", sm_cycles_per_step<Atomic<false>, 16, 48>(512, kBytes), "cycles per warp instruction and SM",
         "16 warps, a word for each thread");
  report(name + " rate, one word", sm_cycles_per_step<Atomic<true>, 16, 48>(512, kBytes),
         "cycles per warp instruction and SM", "16 warps, all at one word");
}
BENCHMARK(generic_loads) {
  report("ld of shared memory by generic address, 8 bytes latency", cycles_per_step<GenericChain>(32, kBytes), "cycles",
         "chain, no conflicts");
  report("ld of shared memory by generic address, 4 bytes rate", sm_cycles_per_step<GenericLoads<4>>(512, kBytes),
         "cycles per warp instruction and SM", "16 warps, no conflicts");
  report("ld of shared memory by generic address, 4 bytes rate, 1 warp", cycles_per_step<GenericLoads<4>>(32, kBytes),
         "cycles per warp instruction", "no conflicts");
  report("ld of shared memory by generic address, 16 bytes rate", sm_cycles_per_step<GenericLoads<16>>(512, kBytes),
         "cycles per warp instruction and SM", "16 warps, no conflicts");
  report("movmatrix latency", cycles_per_step<MovmatrixChain>(32), "cycles", "chain, one warp");
}

BENCHMARK(atomics) {
  atomic<AtomAdd>("atom.shared.add.u32");
  atomic<AtomExch>("atom.shared.exch.b32");
  atomic<AtomCas>("atom.shared.cas.b32");
  atomic<AtomAddF32>("atom.shared.add.f32");
  atomic<RedAdd>("red.shared.add.u32");
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
