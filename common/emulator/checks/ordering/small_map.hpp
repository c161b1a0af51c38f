// A map of few elements, which are beside each other in memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace stagecraft::emulator::checks {

/// Values by number, in ascending order: the part of std::map that is needed. Adding an element moves those after it.
template <typename Value>
class SmallMap {
 public:
  using Element = std::pair<uint32_t, Value>;
  using Iterator = typename std::vector<Element>::iterator;
  using ConstIterator = typename std::vector<Element>::const_iterator;

  ConstIterator begin() const { return elements_.begin(); }
  ConstIterator end() const { return elements_.end(); }
  bool empty() const { return elements_.empty(); }
  ConstIterator find(uint32_t key) const {
    const ConstIterator place = std::lower_bound(elements_.begin(), elements_.end(), key, is_before);
    return place != elements_.end() && place->first == key ? place : elements_.end();
  }
  /// Adds a value for the key, unless it has one. Returns its place, and whether it was added.
  std::pair<Iterator, bool> try_emplace(uint32_t key) {
    const Iterator place = std::lower_bound(elements_.begin(), elements_.end(), key, is_before);
    if (place != elements_.end() && place->first == key) return {place, false};
    return {elements_.emplace(place, key, Value{}), true};
  }
  void erase(uint32_t key) {
    std::erase_if(elements_, [&](const Element& element) { return element.first == key; });
  }

 private:
  static bool is_before(const Element& element, uint32_t key) { return element.first < key; }

  std::vector<Element> elements_;
};

}  // namespace stagecraft::emulator::checks
