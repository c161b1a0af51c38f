#include "emulator/translation/loop_order.hpp"

#include <algorithm>
#include <utility>

#include "emulator/translation/polling_loops.hpp"

namespace stagecraft::emulator::machine {

namespace {

/// Loops that are nested deeper than this keep the order of the text: no compiler writes such, but hostile text may.
constexpr uint32_t kDeepestLoop = 64;
constexpr uint32_t kPlaced = 0xffffffffu;

class Arrangement {
 public:
  Arrangement(const FlowGraph& graph, const PollingLoops& polling, LoopOrder& result)
      : graph_(graph),
        polling_(polling),
        result_(result),
        region_(graph.blocks.size(), 0),
        number_(graph.blocks.size()),
        low_(graph.blocks.size()),
        is_open_(graph.blocks.size()) {
    result_.heads.assign(graph.function.body.size(), LoopHead::none);
  }

  void run() {
    std::vector<uint32_t> all(graph_.blocks.size());
    for (uint32_t i = 0; i < all.size(); ++i) all[i] = i;
    arrange(all, 0);
  }

 private:
  /// Puts blocks in order, which are given in the order of the text; edges to blocks of other regions do not count.
  void arrange(const std::vector<uint32_t>& blocks, uint32_t depth) {
    const uint32_t region = region_[blocks.front()];
    std::vector<std::vector<uint32_t>> components = components_of(blocks, region);
    for (auto component = components.rbegin(); component != components.rend(); ++component) {
      std::sort(component->begin(), component->end());
      const auto& successors = graph_.blocks[component->front()].successors;
      const bool loops = component->size() > 1 ||
                         std::find(successors.begin(), successors.end(), component->front()) != successors.end();
      if (!loops) {
        append(component->front());
        continue;
      }
      const uint32_t head = head_of(*component);
      const uint32_t first = graph_.blocks[head].begin;
      result_.heads[first] = polling_.may_wait(*component, head) ? LoopHead::polls : LoopHead::computes;
      append(head);
      std::erase(*component, head);
      if (component->empty()) continue;
      if (depth == kDeepestLoop) {
        for (const uint32_t block : *component) {
          result_.heads[graph_.blocks[block].begin] = result_.heads[first];
          append(block);
        }
        continue;
      }
      region_[head] = kPlaced;
      ++regions_;
      for (const uint32_t block : *component) region_[block] = regions_;
      arrange(*component, depth + 1);
    }
  }

  void append(uint32_t block) {
    for (uint32_t i = graph_.blocks[block].begin; i < graph_.blocks[block].end; ++i) result_.sequence.push_back(i);
  }

  /// Returns the block by which a loop is entered; the first in the text, when there are several.
  uint32_t head_of(const std::vector<uint32_t>& loop) const {
    for (const uint32_t block : loop) {
      const auto& from = graph_.blocks[block].predecessors;
      if (block == 0 || std::any_of(from.begin(), from.end(), [&](uint32_t each) {
            return !std::binary_search(loop.begin(), loop.end(), each);
          })) {
        return block;
      }
    }
    return loop.front();  // nothing enters it
  }

  /// Tarjan's algorithm, without recursion: the strongly connected components, each after those that it leads to.
  /// Starting from the end of the text keeps the order of the text where the edges leave a choice.
  std::vector<std::vector<uint32_t>> components_of(const std::vector<uint32_t>& blocks, uint32_t region) {
    std::vector<std::vector<uint32_t>> components;
    struct Visit {
      uint32_t block;
      size_t next_successor;
    };
    std::vector<uint32_t> open;
    std::vector<Visit> path;
    uint32_t count = 0;
    for (const uint32_t block : blocks) number_[block] = 0;
    const auto enter = [&](uint32_t block) {
      number_[block] = low_[block] = ++count;
      open.push_back(block);
      is_open_[block] = true;
      path.push_back({block, 0});
    };
    for (auto root = blocks.rbegin(); root != blocks.rend(); ++root) {
      if (number_[*root] != 0) continue;
      enter(*root);
      while (!path.empty()) {
        const uint32_t block = path.back().block;
        const auto& successors = graph_.blocks[block].successors;
        if (path.back().next_successor < successors.size()) {
          const uint32_t to = successors[path.back().next_successor++];
          if (region_[to] != region) continue;
          if (number_[to] == 0) {
            enter(to);
          } else if (is_open_[to]) {
            low_[block] = std::min(low_[block], number_[to]);
          }
          continue;
        }
        path.pop_back();
        if (!path.empty()) low_[path.back().block] = std::min(low_[path.back().block], low_[block]);
        if (low_[block] != number_[block]) continue;
        std::vector<uint32_t> component;
        do {
          component.push_back(open.back());
          is_open_[open.back()] = false;
          open.pop_back();
        } while (component.back() != block);
        components.push_back(std::move(component));
      }
    }
    return components;
  }

  const FlowGraph& graph_;
  const PollingLoops& polling_;
  LoopOrder& result_;
  std::vector<uint32_t> region_;  // by block: the innermost loop around it whose head is in order already
  uint32_t regions_ = 0;
  // What components_of keeps, by block: in which order they were reached (0: not yet), the first each leads back to.
  std::vector<uint32_t> number_, low_;
  std::vector<bool> is_open_;
};

}  // namespace

LoopOrder find_loop_order(const ptx::Function& function, const std::vector<InstructionTraits>& traits,
                          bool calls_observe) {
  LoopOrder order;
  if (function.body.empty()) return order;
  const FlowGraph graph(function, traits);
  const PollingLoops polling(graph, traits, calls_observe);
  Arrangement(graph, polling, order).run();
  return order;
}

}  // namespace stagecraft::emulator::machine
