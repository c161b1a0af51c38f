#include "emulator/timing/sub_partition.hpp"

#include <algorithm>

namespace stagecraft::emulator::timing {
namespace {

constexpr double kTiny = 1e-6;

}  // namespace

void SubPartition::advance(double now) {
  for (Piece& piece : pieces_) piece.left -= (now - now_) * piece.rate;
  now_ = now;
}

void SubPartition::set_rates() {
  std::array<double, kPipes> left;
  left.fill(1);
  for (Piece& piece : pieces_) {
    piece.rate = 1;
    for (size_t pipe = 0; pipe < kPipes; ++pipe) {
      if (piece.demand[pipe] > 0) piece.rate = std::min(piece.rate, left[pipe] / piece.demand[pipe]);
    }
    for (size_t pipe = 0; pipe < kPipes; ++pipe)
      left[pipe] = std::max(0., left[pipe] - piece.rate * piece.demand[pipe]);
  }
  ++version_;
}

void SubPartition::start(double now, uint32_t warp, const CodePart& part) {
  advance(now);
  Piece piece{warp, part.cycles, 1, {}};
  for (size_t pipe = 0; pipe < kPipes; ++pipe) piece.demand[pipe] = part.pipes[pipe] / part.cycles;
  issued_ += part.pipes[static_cast<size_t>(Pipe::issue)];
  products_ += part.pipes[static_cast<size_t>(Pipe::matrix)];
  const auto behind = std::upper_bound(pieces_.begin(), pieces_.end(), piece,
                                       [](const Piece& a, const Piece& b) { return a.warp > b.warp; });
  pieces_.insert(behind, piece);
  set_rates();
}

double SubPartition::next_end() const {
  double least = -1;
  for (const Piece& piece : pieces_) {
    if (piece.rate <= 0 && piece.left > kTiny) continue;
    const double left = piece.left <= kTiny ? 0 : piece.left / piece.rate;
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
