#include "emulator/machine/grid_parts.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "emulator/machine/grid_run.hpp"

namespace stagecraft::emulator::machine {
namespace {

/// Enough for the cores of a workstation; more would leave large clusters too few multiprocessors.
constexpr uint32_t kMostParts = 16;
/// What is done sooner than this is not worth the start of a thread.
constexpr std::chrono::microseconds kWorthAThread{200};

/// Multiprocessors go to the parts in pairs, which blocks with shared tensor operations need.
uint32_t first_multiprocessor(uint32_t part, uint32_t parts, uint32_t multiprocessors) {
  return part == parts ? multiprocessors : multiprocessors / 2 * part / parts * 2;
}

class Parts {
 public:
  Parts(const GridConstants& grid, uint32_t parts, const std::function<std::unique_ptr<Observer>()>& observer)
      : grid_(grid), observer_(observer), results_(parts) {}

  LaunchResult run(uint32_t threads) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> helpers;
    while (run_next()) {
      const uint64_t left = results_.size() - std::min<uint64_t>(next_, results_.size());
      const uint64_t wanted = std::min<uint64_t>(threads - 1, left);
      if (!helpers.empty() || std::chrono::steady_clock::now() - begin < kWorthAThread) continue;
      for (uint64_t i = 0; i < wanted; ++i) {
        helpers.emplace_back([this] {
          while (run_next()) {
          }
        });
      }
    }
    for (std::thread& helper : helpers) helper.join();
    if (failure_) std::rethrow_exception(failure_);
    return together();
  }

 private:
  /// False when there is none left.
  bool run_next() {
    const uint32_t part = next_++;
    if (part >= results_.size()) return false;
    try {
      run_part(part);
    } catch (...) {  // out of memory
      if (!has_failed_.exchange(true)) failure_ = std::current_exception();
    }
    return true;
  }

  void run_part(uint32_t part) {
    const auto parts = static_cast<uint32_t>(results_.size());
    const auto observer = observer_();
    Grid grid;
    static_cast<GridConstants&>(grid) = grid_;
    grid.observers = {observer.get()};
    grid.next_cluster = part;
    grid.cluster_step = parts;
    const uint32_t chip = grid_.architecture->multiprocessors;
    const uint32_t first = first_multiprocessor(part, parts, chip);
    grid.sms.resize(first_multiprocessor(part + 1, parts, chip) - first);
    for (uint32_t i = 0; i < grid.sms.size(); ++i) grid.sms[i].index = first + i;

    LaunchResult& result = results_[part];
    GridRun(grid, result, &earliest_fault_).run();
    if (!result.fault) return;
    Cycle earliest = earliest_fault_;
    while (result.fault_at < earliest && !earliest_fault_.compare_exchange_weak(earliest, result.fault_at)) {
    }
  }

  LaunchResult together() {
    LaunchResult sum;
    for (LaunchResult& part : results_) {
      sum.thread_instructions += part.thread_instructions;
      sum.warp_instructions += part.warp_instructions;
      sum.cycles = std::max(sum.cycles, part.cycles);
      if (!part.fault || (sum.fault && sum.fault_at <= part.fault_at)) continue;
      sum.fault = part.fault;
      sum.fault_at = part.fault_at;
      sum.diagnostics = std::move(part.diagnostics);
    }
    return sum;
  }

  const GridConstants& grid_;
  const std::function<std::unique_ptr<Observer>()>& observer_;
  std::vector<LaunchResult> results_;  ///< by part
  std::atomic<uint32_t> next_ = 0;     ///< part to be run
  std::atomic<Cycle> earliest_fault_ = ~Cycle{0};
  std::atomic<bool> has_failed_ = false;
  std::exception_ptr failure_;
};

}  // namespace

uint32_t parts_of(const LaunchRequest& request, const Architecture& chip) {
  if (request.kernel->clusters_interact) return 1;
  const uint64_t blocks = request.cluster.count(), clusters = request.grid.count() / blocks;
  // A cluster must have as much room as on the whole chip, for which twice its blocks are plenty.
  const uint64_t roomy = std::max<uint64_t>(1, chip.multiprocessors / (2 * blocks));
  return static_cast<uint32_t>(std::min({uint64_t{kMostParts}, clusters, roomy}));
}

LaunchResult run_in_parts(const GridConstants& grid, uint32_t parts,
                          const std::function<std::unique_ptr<Observer>()>& observer, uint32_t threads) {
  return Parts(grid, parts, observer).run(threads);
}

}  // namespace stagecraft::emulator::machine
