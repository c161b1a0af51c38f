// Random kernels as PTX text: arithmetic, loops and branches that lanes take apart, loads and stores, barriers, copies,
// exchanges between lanes, atomics.
//
// A kernel is right by construction: no two threads race, and nothing depends on the order in which they run. So its
// results are the same wherever it runs, and a check that reports something raises a false alarm. What threads do
// together is a statement of its own with all the barriers that it needs; a statement can be dropped from a kernel, and
// the rest stays right.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace stagecraft::random_kernels {

/// A piece of the text, with pieces inside it: the body of a loop, the two sides of a branch.
struct Statement {
  std::string before{}, between{}, after{};
  std::vector<Statement> first{}, second{};  ///< between `before` and `between`, and between that and `after`
};

struct RandomKernel {
  uint64_t seed = 0;
  uint32_t blocks = 1, threads = 32;  ///< in all, and of each block
  uint32_t cluster = 1;               ///< blocks of a cluster
  std::vector<Statement> statements;

  /// The module's text. Its kernel has two parameters: `in`, which it reads, and `out`.
  std::string ptx() const;
  /// Words of `out`.
  uint32_t out_words() const;
  static constexpr uint32_t kInWords = 4096;
};

/// The kernel of a seed; the same in each run of a program.
RandomKernel make_kernel(uint64_t seed);

/// Kernels with one statement less each, larger ones dropped first.
std::vector<RandomKernel> smaller_kernels(const RandomKernel& kernel);

}  // namespace stagecraft::random_kernels
