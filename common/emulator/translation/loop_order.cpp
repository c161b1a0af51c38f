#include "emulator/translation/loop_order.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "emulator/translation/polling_loops.hpp"

namespace stagecraft::emulator::machine {

namespace {

/// Loops that are nested deeper than this keep the order of the text: no compiler writes such, but hostile text may.
constexpr uint32_t kDeepestLoop = 64;
constexpr uint32_t kPlaced = 0xffffffffu;

/// A block, or a loop with all that is in it: what the order does not mix with anything else.
struct Piece {
  std::vector<uint32_t> blocks;  ///< in order
  bool waits = false;            ///< it has a loop that may wait for lanes that must go first (loop_order.hpp)
};

class Arrangement {
 public:
  Arrangement(const FlowGraph& graph, const PollingLoops& polling, LoopOrder& result)
      : graph_(graph),
        polling_(polling),
        result_(result),
        region_(graph.blocks.size(), 0),
        piece_(graph.blocks.size()),
        number_(graph.blocks.size()),
        low_(graph.blocks.size()),
        is_open_(graph.blocks.size()) {
    result_.heads.assign(graph.function.body.size(), LoopHead::none);
  }

  void run() {
    std::vector<uint32_t> all(graph_.blocks.size());
    for (uint32_t i = 0; i < all.size(); ++i) all[i] = i;
    for (const uint32_t block : arrange(all, 0).blocks) {
      for (uint32_t i = graph_.blocks[block].begin; i < graph_.blocks[block].end; ++i) result_.sequence.push_back(i);
    }
  }

 private:
  /// Puts blocks of one region in order; edges to blocks of other regions do not count.
  Piece arrange(const std::vector<uint32_t>& blocks, uint32_t depth) {
    const uint32_t region = region_[blocks.front()];
    std::vector<std::vector<uint32_t>> components = components_of(blocks, region);
    for (uint32_t i = 0; i < components.size(); ++i) {
      for (const uint32_t block : components[i]) piece_[block] = i;
    }
    std::vector<std::set<uint32_t>> leads_to(components.size());
    for (const uint32_t block : blocks) {
      for (const uint32_t to : graph_.blocks[block].successors) {
        if (region_[to] == region && piece_[to] != piece_[block]) leads_to[piece_[block]].insert(piece_[to]);
      }
    }
    std::vector<Piece> pieces;  // from here on, loops inside change the regions and pieces of their blocks
    for (std::vector<uint32_t>& component : components) pieces.push_back(arrange_piece(component, depth));
    return join(pieces, leads_to);
  }

  Piece arrange_piece(std::vector<uint32_t>& component, uint32_t depth) {
    std::sort(component.begin(), component.end());
    const auto& successors = graph_.blocks[component.front()].successors;
    const bool loops =
        component.size() > 1 || std::find(successors.begin(), successors.end(), component.front()) != successors.end();
    if (!loops) return {component, false};
    const uint32_t head = head_of(component);
    const LoopEnd end = polling_.end_of(component, head);
    LoopHead& kind = result_.heads[graph_.blocks[head].begin];
    kind = end == LoopEnd::observed || end == LoopEnd::slept ? LoopHead::polls : LoopHead::computes;
    Piece piece{{head}, end == LoopEnd::read || end == LoopEnd::slept};
    std::erase(component, head);
    if (component.empty()) return piece;
    if (depth == kDeepestLoop) {
      for (const uint32_t block : component) result_.heads[graph_.blocks[block].begin] = kind;
      piece.blocks.insert(piece.blocks.end(), component.begin(), component.end());
      return piece;
    }
    region_[head] = kPlaced;
    ++regions_;
    for (const uint32_t block : component) region_[block] = regions_;
    const Piece rest = arrange(component, depth + 1);
    piece.blocks.insert(piece.blocks.end(), rest.blocks.begin(), rest.blocks.end());
    piece.waits = piece.waits || rest.waits;
    return piece;
  }

  /// Makes one piece of several, which are given each after those that it leads to. Where the edges leave a choice,
  /// pieces that wait come last, and branches to them that other lanes do not take; otherwise the text decides.
  static Piece join(const std::vector<Piece>& pieces, const std::vector<std::set<uint32_t>>& leads_to) {
    std::vector<uint64_t> ahead(pieces.size());  // waits that lanes may come to: a bit each, shared from the 65th on
    std::vector<bool> comes_last(pieces.size());
    std::vector<uint32_t> edges_to(pieces.size(), 0);
    uint32_t waits = 0;
    for (uint32_t i = 0; i < pieces.size(); ++i) {
      uint64_t some = 0, all = ~uint64_t{0};
      for (const uint32_t to : leads_to[i]) {
        some |= ahead[to];
        all &= ahead[to];
        ++edges_to[to];
      }
      comes_last[i] = pieces[i].waits || (!leads_to[i].empty() && some != all);
      ahead[i] = some | (pieces[i].waits ? uint64_t{1} << (waits++ % 64) : 0);
    }
    Piece joined;
    joined.waits = waits != 0;
    std::set<std::tuple<bool, uint32_t, uint32_t>> ready;  // whether it comes last, its place in the text, the piece
    const auto add = [&](uint32_t i) { ready.emplace(comes_last[i], pieces[i].blocks.front(), i); };
    for (uint32_t i = 0; i < pieces.size(); ++i) {
      if (edges_to[i] == 0) add(i);
    }
    while (!ready.empty()) {
      const uint32_t next = std::get<2>(*ready.begin());
      ready.erase(ready.begin());
      joined.blocks.insert(joined.blocks.end(), pieces[next].blocks.begin(), pieces[next].blocks.end());
      for (const uint32_t to : leads_to[next]) {
        if (--edges_to[to] == 0) add(to);
      }
    }
    return joined;
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
    for (const uint32_t root : blocks) {
      if (number_[root] != 0) continue;
      enter(root);
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
  std::vector<uint32_t> piece_;  // by block: its component, while `arrange` looks for the edges between them
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
