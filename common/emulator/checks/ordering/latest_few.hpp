// The latest few of a sequence that goes on.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace stagecraft::emulator::checks {

/// Keeps the latest `kMost` values, in the order in which they came. To add one moves none of the others, on average.
template <typename Value, size_t kMost>
class LatestFew {
 public:
  using ConstIterator = typename std::vector<Value>::const_iterator;
  using ConstReverseIterator = typename std::vector<Value>::const_reverse_iterator;

  ConstIterator begin() const { return values_.end() - static_cast<std::ptrdiff_t>(size()); }
  ConstIterator end() const { return values_.end(); }
  ConstReverseIterator rbegin() const { return ConstReverseIterator(end()); }
  ConstReverseIterator rend() const { return ConstReverseIterator(begin()); }
  size_t size() const { return values_.size() < kMost ? values_.size() : kMost; }
  void push_back(Value value) {
    if (values_.size() == 2 * kMost) values_.erase(values_.begin(), begin());
    values_.push_back(std::move(value));
  }

 private:
  std::vector<Value> values_;  ///< with up to as many that came before the latest few
};

}  // namespace stagecraft::emulator::checks
