// What the programs about the lanes of a warp share: notes that lanes take, how they are printed, and the comparison
// with what a real GPU printed.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

constexpr int kSlots = 16;

/// What a kernel notes: a word for each slot and lane, and a counter that gives out numbers in order.
struct Notes {
  uint32_t word[kSlots][32];
  uint32_t next;
  uint32_t memory[64];
};

__device__ inline uint32_t active() {
  uint32_t mask;
  asm volatile("activemask.b32 %0;" : "=r"(mask)::"memory");
  return mask;
}
__device__ inline int lane() { return threadIdx.x & 31; }
/// A piece of work that ptxas neither removes nor replaces by predicates.
__device__ inline void work(uint32_t& x, int steps = 16) {
#pragma unroll 1
  for (int i = 0; i < steps; ++i) asm volatile("mad.lo.u32 %0, %0, %0, 7;" : "+r"(x)::"memory");
}
#define NOTE(SLOT, VALUE) notes->word[SLOT][lane()] = (VALUE)
#define TICKET(SLOT) notes->word[SLOT][lane()] = atomicAdd(&notes->next, 1)

inline void fail_on(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorName(error));
  std::exit(1);
}

/// What a program prints, in sections: a line with the name, and lines that begin with two spaces.
/// usage: PROGRAM [--compare FILE] [--without] [SECTION...]
/// SECTIONs are the only ones to run, or with --without the only ones to leave out. With --compare nothing is printed
/// but the sections that differ from those of the file.
class Output {
 public:
  Output(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string argument = argv[i];
      if (argument == "--compare" && i + 1 < argc) {
        read(argv[++i]);
      } else if (argument == "--without") {
        leaves_out_ = true;
      } else {
        named_.push_back(argument);
      }
    }
  }
  /// Begins a section. Returns whether it is to run.
  bool begin(const char* name) {
    const bool is_named = std::find(named_.begin(), named_.end(), name) != named_.end();
    if (!named_.empty() && is_named == leaves_out_) return false;
    section_ = name;
    got_[section_].clear();
    if (!compares_) std::printf("%s\n", name);
    return true;
  }
  void line(const char* format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    got_[section_] += text + std::string("\n");
    if (!compares_) std::printf("%s\n", text);
  }
  /// Returns the exit status: 1 when a section differs from the file.
  int finish() const {
    int status = 0;
    if (!compares_) return status;
    for (const auto& [name, text] : got_) {
      const auto expected = expected_.find(name);
      if (expected != expected_.end() && expected->second == text) continue;
      std::printf("%s\nexpected\n%sgot\n%s", name.c_str(),
                  expected == expected_.end() ? "  nothing\n" : expected->second.c_str(), text.c_str());
      status = 1;
    }
    return status;
  }

 private:
  void read(const char* path) {
    compares_ = true;
    std::ifstream file(path);
    std::string section;
    for (std::string text; std::getline(file, text);) {
      if (text[0] == ' ')
        expected_[section] += text + "\n";
      else
        section = text;
    }
    if (expected_.empty()) {
      std::printf("cannot read %s\n", path);
      std::exit(1);
    }
  }

  bool compares_ = false, leaves_out_ = false;
  std::vector<std::string> named_;
  std::string section_;
  std::map<std::string, std::string> got_, expected_;  // the lines of each section
};

inline Notes run(void (*kernel)(Notes*, uint32_t), const char* name, int threads = 32) {
  Notes host, *device;
  fail_on(cudaMalloc(&device, sizeof host), "cudaMalloc");
  // Slots that no lane notes keep this word.
  for (auto& slot : host.word)
    for (uint32_t& word : slot) word = 0xabababab;
  host.next = 0;
  for (uint32_t& word : host.memory) word = 0;
  fail_on(cudaMemcpy(device, &host, sizeof host, cudaMemcpyHostToDevice), "cudaMemcpy");
  kernel<<<1, threads>>>(device, 1);
  fail_on(cudaDeviceSynchronize(), name);
  fail_on(cudaMemcpy(&host, device, sizeof host, cudaMemcpyDeviceToHost), "cudaMemcpy");
  fail_on(cudaFree(device), "cudaFree");
  return host;
}

/// Prints which lanes noted which word, for each slot that was noted.
inline void print_groups(Output& output, const Notes& notes, int slots = kSlots) {
  for (int slot = 0; slot < slots; ++slot) {
    std::vector<std::pair<uint32_t, uint32_t>> groups;  // word, lanes
    for (int lane = 0; lane < 32; ++lane) {
      const uint32_t word = notes.word[slot][lane];
      if (word == 0xabababab) continue;
      auto found = std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == word; });
      if (found == groups.end())
        groups.emplace_back(word, 1u << lane);
      else
        found->second |= 1u << lane;
    }
    for (const auto& [word, lanes] : groups) output.line("  %d: lanes %08x noted %08x", slot, lanes, word);
  }
}
/// Prints the lanes by the number that they drew.
inline void print_order(Output& output, const Notes& notes, int slots) {
  for (int slot = 0; slot < slots; ++slot) {
    std::map<uint32_t, int> order;
    for (int lane = 0; lane < 32; ++lane)
      if (notes.word[slot][lane] != 0xabababab) order[notes.word[slot][lane]] = lane;
    std::string text;
    for (const auto& [number, lane] : order) text += " " + std::to_string(lane);
    output.line("  %d: order%s", slot, text.c_str());
  }
}
