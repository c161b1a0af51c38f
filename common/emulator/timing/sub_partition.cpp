#include "emulator/timing/sub_partition.hpp"

#include <algorithm>
#include <limits>

namespace stagecraft::emulator::timing {
namespace {

constexpr double kTiny = 1e-6;
/// Pieces that differ by less have issued as much.
constexpr double kSame = 1e-3;

}  // namespace

double SubPartition::Piece::pace() const { return rate * demand[static_cast<size_t>(Pipe::issue)]; }

void SubPartition::advance(double now) {
  for (Piece& piece : pieces_) {
    piece.left -= (now - now_) * piece.rate;
    piece.done += (now - now_) * piece.pace();
  }
  now_ = now;
}

size_t SubPartition::behind_equals(size_t first) const {
  const Piece& of = pieces_[first];
  size_t behind = first + 1;
  while (behind < pieces_.size() && pieces_[behind].block == of.block && pieces_[behind].done <= of.done + kSame) {
    ++behind;
  }
  return behind;
}

void SubPartition::share(std::span<Piece> pieces, std::array<double, kPipes>& left) {
  constexpr double kOpen = -1;
  for (Piece& piece : pieces) piece.rate = kOpen;
  // Each round settles those that need the pipe that is full first; the last one those that need no full pipe.
  for (bool open = true; open;) {
    std::array<double, kPipes> wanted{};
    for (const Piece& piece : pieces) {
      for (size_t pipe = 0; pipe < kPipes && piece.rate == kOpen; ++pipe) wanted[pipe] += piece.demand[pipe];
    }
    double rate = 1;
    size_t full = kPipes;
    for (size_t pipe = 0; pipe < kPipes; ++pipe) {
      if (wanted[pipe] * rate > left[pipe]) rate = left[pipe] / wanted[pipe], full = pipe;
    }
    open = false;
    for (Piece& piece : pieces) {
      if (piece.rate != kOpen) continue;
      if (full != kPipes && piece.demand[full] == 0) {
        open = true;
        continue;
      }
      piece.rate = rate;
      for (size_t pipe = 0; pipe < kPipes; ++pipe) left[pipe] = std::max(0., left[pipe] - rate * piece.demand[pipe]);
    }
  }
}

void SubPartition::set_rates() {
  const auto is_first = [](const Piece& a, const Piece& b) {
    return a.block != b.block ? a.block < b.block : a.done < b.done;
  };
  if (!std::is_sorted(pieces_.begin(), pieces_.end(), is_first)) {
    std::stable_sort(pieces_.begin(), pieces_.end(), is_first);
  }
  std::array<double, kPipes> left;
  left.fill(1);
  for (size_t first = 0; first < pieces_.size();) {
    const size_t behind = behind_equals(first);
    share(std::span(pieces_).subspan(first, behind - first), left);
    first = behind;
  }
}

void SubPartition::start(double now, uint32_t block, uint32_t warp, const CodePart& part) {
  advance(now);
  Piece piece{block, warp, part.cycles, 1, {}, 0};
  for (size_t pipe = 0; pipe < kPipes; ++pipe) piece.demand[pipe] = part.pipes[pipe] / part.cycles;
  issued_ += part.pipes[static_cast<size_t>(Pipe::issue)];
  products_ += part.pipes[static_cast<size_t>(Pipe::matrix)];
  pieces_.push_back(piece);
  set_rates();
}

double SubPartition::next_end() const {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  double least = kNever;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    if (piece.left <= kTiny) return now_;
    if (piece.rate <= 0) continue;
    least = std::min(least, piece.left / piece.rate);
    // Those that have issued more are as far ahead or further.
    const size_t behind = behind_equals(i);
    if (behind == pieces_.size() || pieces_[behind].block != piece.block) continue;
    const Piece& next = pieces_[behind];
    if (piece.pace() > next.pace() + kTiny) {
      least = std::min(least, (next.done - piece.done) / (piece.pace() - next.pace()));
    }
  }
  return least == kNever ? -1 : now_ + least;
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
