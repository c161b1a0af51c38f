// Makes the statements of random kernels, from a seed.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "random_kernel.hpp"

namespace stagecraft::random_kernels {

// Registers of each kind with data.
inline constexpr uint32_t kWords = 8, kDoubleWords = 4, kFloats = 4, kPredicates = 4;

class Generator {
 public:
  explicit Generator(uint64_t seed) : engine_(seed) {
    kernel_.seed = seed;
    kernel_.threads = one_of({32, 32, 64, 64, 96, 128, 256, 40, 72});
    kernel_.cluster = one_of({1, 1, 2, 2, 3, 4});
    kernel_.blocks = kernel_.cluster * one_of({1, 1, 2, 3});
  }

  RandomKernel make() {
    const uint32_t count = 4 + below(24);
    for (uint32_t i = 0; i < count; ++i) kernel_.statements.push_back(statement_of_all(2, true));
    return std::move(kernel_);
  }

 private:
  uint32_t below(uint32_t end) { return static_cast<uint32_t>(engine_() % end); }
  bool one_in(uint32_t count) { return below(count) == 0; }
  uint32_t one_of(std::initializer_list<uint32_t> values) {
    return values.begin()[below(static_cast<uint32_t>(values.size()))];
  }
  const char* one_of(std::initializer_list<const char*> values) {
    return values.begin()[below(static_cast<uint32_t>(values.size()))];
  }
  uint32_t number() { return next_number_++; }

  std::string word() { return fmt::format("%r{}", below(kWords)); }
  std::string wide() { return fmt::format("%rd{}", below(kDoubleWords)); }
  std::string real() { return fmt::format("%f{}", below(kFloats)); }
  std::string truth() { return fmt::format("%p{}", below(kPredicates)); }
  std::string constant() {
    if (one_in(2)) return std::to_string(below(40));
    if (one_in(2)) return fmt::format("0x{:x}", static_cast<uint32_t>(engine_()));
    return std::to_string(one_of({0x7fffffff, 0x80000000, 0xffffffff, 0x8000, 0xff, 0x10000}));
  }
  /// A register or a constant.
  std::string source() { return one_in(4) ? constant() : word(); }
  std::string guard() { return one_in(6) ? fmt::format("@{}{} ", one_in(2) ? "!" : "", truth()) : std::string(); }

  // What a lane does alone (lane_statements.cpp).
  Statement line(const std::string& text);
  Statement integer();
  Statement of_64_bits();
  Statement floating();
  Statement doubles();
  /// f16 and bf16, one or two in a register.
  Statement small_floats();
  Statement comparison();
  Statement narrow();
  Statement load_input();
  std::string different_words(uint32_t count);
  /// The thread's own words of `out` behind its registers, and its own words of shared memory.
  Statement own_memory();
  /// An update whose order does not matter. Each cell is for one operation.
  Statement update();
  Statement alone();
  std::vector<Statement> several(uint32_t most, const std::function<Statement()>& make);
  /// Lanes may take different paths.
  Statement diverging(uint32_t depth);

  // What lanes of a warp and threads of a block do together (block_statements.cpp).
  bool has_whole_warps() const;
  /// @param mask      the lanes that take part
  /// @param partners  bits of its number in which a lane of the mask may differ from another one
  Statement among_lanes(uint32_t mask, uint32_t partners);
  /// Some lanes of each warp go one way, the rest another, and exchange values there.
  Statement parted_warp();
  /// Each thread writes its own words of shared memory, and reads another thread's.
  Statement exchange_in_block(const std::function<std::string()>& meet);
  std::string barrier();
  /// %t0: the own words of shared memory of a thread of the block.
  std::string tile_of_another();
  /// @param scope  ".cluster" where threads of other blocks have arrived
  std::string wait_at(const std::string& mbarrier, const std::string& parity, const char* scope = "");
  /// All threads arrive at the second mbarrier, and wait there.
  std::string meet_at_mbarrier();
  /// One half of the warps passes values to the other, through a buffer that goes back and forth.
  Statement hand_over();
  /// One thread copies a piece of the input to shared memory, and all of them read it.
  Statement bulk_load();
  /// Each thread writes shared memory, and one thread stores all of it.
  Statement bulk_store();
  /// Each thread copies a piece of the input to its own words, and reads them after its wait.
  Statement own_copy();
  /// Rounds and conditions that are the same for all threads of the block.
  /// @param of_cluster  all blocks of the cluster come here
  Statement together(uint32_t depth, bool of_cluster);
  Statement statement_of_all(uint32_t depth, bool of_cluster);

  // What the blocks of a cluster do together (cluster_statements.cpp).
  std::string cluster_barrier();
  /// %t0, an address of shared memory, becomes that of the same place in another block of the cluster.
  std::string in_another_block();
  /// %t0: the own words of shared memory of another thread of the block, for each thread those of a different one.
  std::string permuted_tile();
  /// The threads do something of their own between their arrival and their wait.
  Statement split_cluster_barrier();
  /// Each thread reads words of a thread of another block.
  Statement read_remotely();
  /// Each thread writes words of a thread of another block.
  Statement write_remotely();
  /// The same, handed over by an mbarrier of that block.
  Statement arrive_remotely();
  /// The same with st.async, whose bytes the mbarrier counts.
  Statement store_asynchronously();
  /// A block copies a piece of the input to several.
  Statement multicast();
  /// Each block copies words from its shared memory to that of another.
  Statement copy_between_blocks();
  Statement statement_of_cluster();

  std::mt19937_64 engine_;
  RandomKernel kernel_;
  uint32_t next_number_ = 0;
};

}  // namespace stagecraft::random_kernels
