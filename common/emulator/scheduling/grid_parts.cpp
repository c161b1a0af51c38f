#include "emulator/scheduling/grid_parts.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "emulator/scheduling/findings.hpp"
#include "emulator/scheduling/part_run.hpp"

namespace stagecraft::emulator::machine {
namespace {

/// Enough for the cores of a workstation; more would leave large clusters too few multiprocessors.
constexpr uint32_t kMostParts = 16;
/// Work that takes less time than this is not worth starting a thread.
constexpr std::chrono::microseconds kWorthAThread{200};
/// Turns of a part's clusters after which those who follow the grid are asked. A turn of an empty block takes less
/// than half a microsecond, one of a block of many warps several milliseconds.
constexpr uint32_t kTurnsBetweenLooks = 16;

/// Returns the first multiprocessor of a part. Parts get them in pairs, which blocks with cta_group::2 need.
uint32_t first_multiprocessor(uint32_t part, uint32_t parts, uint32_t multiprocessors) {
  return part == parts ? multiprocessors : multiprocessors / 2 * part / parts * 2;
}

class Parts {
 public:
  Parts(const GridConstants& grid, uint32_t parts, const std::vector<Observer*>& observers, const Division& divided)
      : grid_(grid), observers_(observers), divided_(divided), results_(parts) {}

  LaunchResult run() {
    while (run_next()) {
    }
    for (std::thread& helper : helpers_) helper.join();
    if (failure_) std::rethrow_exception(failure_);
    return together();
  }

 private:
  /// Whether a part goes on; it is asked before each turn of a cluster.
  GoOn goes_on(Cycle now) {
    if (!has_helpers_ && std::this_thread::get_id() == caller_) start_helpers_where_worth_it();
    if (divided_.interrupted != nullptr && divided_.interrupted->load(std::memory_order_relaxed)) {
      return GoOn::interrupted;
    }
    if (now > earliest_stop_.load(std::memory_order_relaxed)) return GoOn::no;
    return divided_.limit != 0 && now > divided_.limit ? GoOn::limit : GoOn::yes;
  }

  /// What a part has added to the counts of all parts.
  struct Counted {
    uint32_t turns = 0;
    uint64_t done = 0, running = 0;
  };

  /// Shows how far the grid has come, if somebody follows it and it is time. Called by each part before its turns.
  void show_progress(const Grid& grid, const RunResult& result, Counted& counted) {
    if (divided_.watcher == nullptr || ++counted.turns % kTurnsBetweenLooks != 0) return;
    count(counted, result.progress.blocks_done, result.progress.blocks_running);
    if (divided_.watcher->is_due()) divided_.watcher->show(blocks_done_, blocks_running_, place_of_a_warp(grid));
  }

  void count(Counted& counted, uint64_t done, uint64_t running) {
    blocks_done_ += done - counted.done;
    blocks_running_ += running - counted.running;
    counted.done = done;
    counted.running = running;
  }

  void start_helpers_where_worth_it() {
    if (std::chrono::steady_clock::now() - begin_ < kWorthAThread) return;
    has_helpers_ = true;
    const uint64_t left = results_.size() - std::min<uint64_t>(next_, results_.size());
    try {
      for (uint64_t i = 0; i < std::min<uint64_t>(divided_.threads - 1, left); ++i) {
        helpers_.emplace_back([this] {
          while (run_next()) {
          }
        });
      }
    } catch (const std::system_error&) {
      // The host cannot start more threads: those that exist do the work.
    }
  }

  /// Runs the next part. Returns false when none is left.
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
    std::vector<std::unique_ptr<Observer>> own;
    if (divided_.observers) own = divided_.observers();
    Grid grid;
    static_cast<GridConstants&>(grid) = grid_;
    grid.observers = observers_;
    for (const auto& observer : own) grid.observers.push_back(observer.get());
    if (!grid.kernel->observed.empty()) {
      std::copy_if(grid.observers.begin(), grid.observers.end(), std::back_inserter(grid.memory_observers),
                   [](const Observer* observer) { return observer->wants_memory_events(); });
    }
    if (!grid.kernel->traced.empty()) {
      std::copy_if(grid.observers.begin(), grid.observers.end(), std::back_inserter(grid.instruction_observers),
                   [](const Observer* observer) { return observer->wants_instructions(); });
    }
    grid.next_region = part;
    grid.region_step = parts;
    if (!grid.kernel->clusters_interact) grid.needs = divided_.needs;
    const uint32_t chip = grid_.architecture->multiprocessors;
    const uint32_t first = first_multiprocessor(part, parts, chip);
    grid.sms.resize(first_multiprocessor(part + 1, parts, chip) - first);
    for (uint32_t i = 0; i < grid.sms.size(); ++i) {
      grid.sms[i].index = first + i;
      // 40 bits: days of a clock that has run since the chip was switched on.
      if (const uint64_t seed = grid.request->seed; seed != 0) grid.sms[i].clock_at_start = draw(seed, first + i) >> 24;
    }

    RunResult& result = results_[part];
    Counted counted;
    const auto before_turn = [&](Cycle now) {
      show_progress(grid, result, counted);
      return goes_on(now);
    };
    PartRun(grid, result, before_turn).run();
    count(counted, result.progress.blocks_done, 0);
    if (!result.stop) return;
    Cycle earliest = earliest_stop_;
    while (result.stop->at < earliest && !earliest_stop_.compare_exchange_weak(earliest, result.stop->at)) {
    }
  }

  LaunchResult together() {
    LaunchResult sum;
    RunResult* first = nullptr;  // the part that was stopped first
    std::vector<std::vector<Finding>> found;
    std::vector<std::vector<WrittenResult>> written;
    for (RunResult& part : results_) {
      sum.thread_instructions += part.executed.thread_instructions;
      sum.warp_instructions += part.executed.warp_instructions;
      sum.cycles = std::max(sum.cycles, part.cycles);
      found.push_back(std::move(part.findings));
      written.push_back(std::move(part.results));
      if (part.stop && (first == nullptr || part.stop->at < first->stop->at)) first = &part;
    }
    if (first == nullptr) {
      sum.diagnostics = merge_findings(std::move(found), std::nullopt);
      if (!sum.diagnostics.empty()) sum.fault = FaultKind::launch_failure;
      sum.unread = merge_unread(written);
      return sum;
    }
    sum.stopped = true;
    sum.fault = first->stop->kind;
    sum.cycles = std::max(first->cycles, first->stop->at);
    sum.diagnostics =
        merge_findings(std::move(found), StoppedAt{static_cast<size_t>(first - results_.data()), first->stop->at});
    if (first->ended != GoOn::yes) {
      sum.interrupted = first->ended == GoOn::interrupted;
      std::vector<Progress> parts;
      for (RunResult& part : results_) parts.push_back(std::move(part.progress));
      add_progress(first->stop->why, parts, grid_.request->grid.count());
    }
    // Findings come before what stopped the kernel, because they are earlier, and often the reason.
    if (!first->stop->asynchronous || !add_consequence(sum.diagnostics, first->stop->why)) {
      sum.diagnostics.push_back(first->stop->why);
    }
    return sum;
  }

  const GridConstants& grid_;
  const std::vector<Observer*>& observers_;
  const Division& divided_;
  std::vector<RunResult> results_;  ///< by part
  std::atomic<uint32_t> next_ = 0;  ///< number of the next part to run
  std::atomic<Cycle> earliest_stop_ = ~Cycle{0};
  std::atomic<uint64_t> blocks_done_ = 0, blocks_running_ = 0;  ///< of all parts, a few turns late
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const std::thread::id caller_ = std::this_thread::get_id();
  bool has_helpers_ = false;  ///< set before there are any
  std::vector<std::thread> helpers_;
  std::atomic<bool> has_failed_ = false;
  std::exception_ptr failure_;
};

}  // namespace

uint32_t parts_of(const LaunchRequest& request, const Architecture& chip) {
  if (request.kernel->clusters_interact) return 1;
  const uint64_t blocks = request.region().count(), regions = request.grid.count() / blocks;
  // A cluster must find as much room as on the whole chip; twice as many multiprocessors as it has blocks are enough.
  const uint64_t roomy = std::max<uint64_t>(1, chip.multiprocessors / (2 * blocks));
  return static_cast<uint32_t>(std::min({uint64_t{kMostParts}, regions, roomy}));
}

LaunchResult run_in_parts(const GridConstants& grid, uint32_t parts, const std::vector<Observer*>& observers,
                          const Division& divided) {
  return Parts(grid, parts, observers, divided).run();
}

}  // namespace stagecraft::emulator::machine
