#include "emulator/timing/sub_partition.hpp"

#include <algorithm>

namespace stagecraft::emulator::timing {
namespace {

constexpr double kTiny = 1e-6;

}  // namespace

void SubPartition::advance(double now) {
  for (Piece& piece : pieces_) piece.left -= (now - now_) * rate_;
  now_ = now;
}

void SubPartition::set_rate() {
  std::array<double, kPipes> sums{};
  for (const Piece& piece : pieces_) {
    for (size_t pipe = 0; pipe < kPipes; ++pipe) sums[pipe] += piece.demand[pipe];
  }
  rate_ = 1 / std::max(1., *std::max_element(sums.begin(), sums.end()));
  ++version_;
}

void SubPartition::start(double now, uint32_t warp, const CodePart& part) {
  advance(now);
  Piece piece{warp, part.cycles, {}};
  for (size_t pipe = 0; pipe < kPipes; ++pipe) piece.demand[pipe] = part.pipes[pipe] / part.cycles;
  issued_ += part.pipes[static_cast<size_t>(Pipe::issue)];
  pieces_.push_back(piece);
  set_rate();
}

double SubPartition::next_end() const {
  double least = -1;
  for (const Piece& piece : pieces_) {
    if (least < 0 || piece.left < least) least = std::max(0., piece.left);
  }
  return least < 0 ? -1 : now_ + least / rate_;
}

void SubPartition::finished(double now, std::vector<uint32_t>& warps) {
  advance(now);
  for (const Piece& piece : pieces_) {
    if (piece.left <= kTiny) warps.push_back(piece.warp);
  }
  std::erase_if(pieces_, [](const Piece& piece) { return piece.left <= kTiny; });
  set_rate();
}

}  // namespace stagecraft::emulator::timing
