#include "emulator/timing/sub_partition.hpp"

#include <algorithm>

namespace stagecraft::emulator::timing {
namespace {

constexpr double kTiny = 1e-6;
constexpr uint32_t kSteps = 64;      ///< of a demand
constexpr uint32_t kMostWarps = 16;  ///< of a sub-partition

/// By how much warps that come to a pipe at random hold each other up: how many times as long they take together as
/// each would alone. Each has the same demand, the part of its time that it needs the pipe for when alone. By mean
/// value analysis of a closed queue with one server (Reiser and Lavenberg, 1980): when a warp comes, it finds the queue
/// that the others would have without it.
class Crowding {
 public:
  Crowding() {
    for (uint32_t step = 1; step <= kSteps; ++step) {
      const double demand = double{1} * step / kSteps, elsewhere = 1 / demand - 1;
      double queue = 0;
      for (uint32_t warps = 1; warps <= kMostWarps; ++warps) {
        const double at_pipe = 1 + queue, rate = warps / (elsewhere + at_pipe);
        queue = rate * at_pipe;
        stretch_[warps][step] = warps * demand / rate;
      }
    }
  }
  /// @param demand  the sum of all of them.
  double stretch(uint32_t warps, double demand) const {
    if (warps <= 1 || warps > kMostWarps) return std::max(1., demand);
    const double each = demand / warps;
    if (each >= 1) return demand;
    const double at = each * kSteps;
    const auto step = static_cast<uint32_t>(at);
    const double low = step == 0 ? 1 : stretch_[warps][step];
    return low + (at - step) * (stretch_[warps][step + 1] - low);
  }

 private:
  double stretch_[kMostWarps + 1][kSteps + 1] = {};
};

const Crowding& crowding() {
  static const Crowding table;
  return table;
}

}  // namespace

void SubPartition::advance(double now) {
  for (Piece& piece : pieces_) piece.left -= (now - now_) * piece.rate;
  now_ = now;
}

void SubPartition::set_rates() {
  std::array<double, kPipes> sums{}, stretches{};
  std::array<uint32_t, kPipes> warps{};
  for (const Piece& piece : pieces_) {
    for (size_t pipe = 0; pipe < kPipes; ++pipe) {
      sums[pipe] += piece.demand[pipe];
      if (piece.demand[pipe] > 0) ++warps[pipe];
    }
  }
  for (size_t pipe = 0; pipe < kPipes; ++pipe) stretches[pipe] = crowding().stretch(warps[pipe], sums[pipe]);
  for (Piece& piece : pieces_) {
    double most = 1;
    for (size_t pipe = 0; pipe < kPipes; ++pipe) {
      if (piece.demand[pipe] > 0) most = std::max(most, stretches[pipe]);
    }
    piece.rate = 1 / most;
  }
  ++version_;
}

void SubPartition::start(double now, uint32_t warp, const CodePart& part) {
  advance(now);
  Piece piece{warp, part.cycles, 1, {}};
  for (size_t pipe = 0; pipe < kPipes; ++pipe) piece.demand[pipe] = part.pipes[pipe] / part.cycles;
  issued_ += part.pipes[static_cast<size_t>(Pipe::issue)];
  products_ += part.pipes[static_cast<size_t>(Pipe::matrix)];
  pieces_.push_back(piece);
  set_rates();
}

double SubPartition::next_end() const {
  double least = -1;
  for (const Piece& piece : pieces_) {
    const double left = std::max(0., piece.left) / piece.rate;
    if (least < 0 || left < least) least = left;
  }
  return least < 0 ? -1 : now_ + least;
}

void SubPartition::finished(double now, std::vector<uint32_t>& warps) {
  advance(now);
  for (const Piece& piece : pieces_) {
    if (piece.left <= kTiny) warps.push_back(piece.warp);
  }
  std::erase_if(pieces_, [](const Piece& piece) { return piece.left <= kTiny; });
  set_rates();
}

}  // namespace stagecraft::emulator::timing
