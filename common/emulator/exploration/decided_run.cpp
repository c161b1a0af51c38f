#include "emulator/exploration/decided_run.hpp"

#include <algorithm>
#include <utility>

namespace stagecraft::emulator::exploration {

using machine::Block;
using machine::Cluster;
using machine::Fragment;
using machine::Warp;
using Kind = Touch::Kind;
using Space = Touch::Space;

namespace {

constexpr uint32_t kEventBits = 24;
/// Tells the ends of a block's warps from its own end.
constexpr uint64_t kEndOfWarps = uint64_t{1} << 62;

/// The number of the block with this index in its grid.
uint64_t number_of(const machine::Grid& grid, const machine::Extent3& index) {
  const machine::Extent3& shape = grid.request->grid;
  return index.x + shape.x * (index.y + uint64_t{shape.y} * index.z);
}

/// Distinguishes the clusters of a grid.
uint64_t number_of(const Cluster& cluster) { return number_of(*cluster.grid, cluster.first_block); }

/// The address of a byte of shared memory, different in all blocks.
uint64_t place_of(const Cluster& cluster, uint32_t shared_address) { return number_of(cluster) << 32 | shared_address; }
uint64_t number_of(const Block& block) { return place_of(*block.cluster, block.shared_base()); }

Actor actor_of(const Warp& warp) {
  const Block& block = *warp.block;
  return (number_of(*block.cluster->grid, block.index) << 6 | warp.index) << kEventBits;
}

}  // namespace

/// Notes what the events of a run touch.
class DecidedRun::Notes : public machine::Observer {
 public:
  explicit Notes(DecidedRun& run) : run_(run) {}

  void barrier_changed(const machine::BarrierEvent& event) override {
    using machine::BarrierEventKind;
    const uint64_t at = number_of(*event.block) + event.offset;
    const auto kind = [&] {
      switch (event.kind) {
        case BarrierEventKind::init:
        case BarrierEventKind::reinitialise:
        case BarrierEventKind::invalidate: return Kind::write;
        case BarrierEventKind::phase_complete: return Kind::complete;
        case BarrierEventKind::wait: return Kind::wait;
        default: return Kind::arrive;
      }
    }();
    run_.note({Space::mbarrier, kind, at, at + 8, event.phase});
    // Bytes do not commute with others of their phase where they could end it too early, or too late.
    if (event.kind == BarrierEventKind::expect_tx || event.kind == BarrierEventKind::complete_tx) {
      const machine::Mbarrier& barrier = event.block->mbarriers.live.at(event.offset);
      const bool announces_late = event.kind == BarrierEventKind::expect_tx && barrier.pending == 0;
      if (barrier.transaction < 0 || announces_late) run_.note({Space::mbarrier, Kind::write, at, at + 8});
    }
    if (event.fragment == nullptr || &event.fragment->block() != event.block) note_that_block_lives(*event.block);
  }

  void fragment_blocked(const Fragment& fragment) override {
    if (fragment.wait.kind != machine::WaitKind::mbarrier) return;
    // It may wait for several barriers: all of its block are what it may depend on.
    const uint64_t at = number_of(fragment.block());
    run_.note({Space::mbarrier, Kind::blocked, at, at + (uint64_t{1} << machine::kSharedRankShift), 0});
  }

  void fragment_exited(const Fragment& fragment) override {
    const uint64_t number = number_of(fragment.block()) | kEndOfWarps;
    run_.note({Space::exit, Kind::arrive, number, number + 1});
  }

  void block_started(const Block& block) override {
    for (const Warp& warp : block.warps) run_.idle_turns_.forget(warp);
    if (block.cluster->grid->kernel->takes_over_clusters) run_.note({Space::launches, Kind::write, 0, 1});
  }

  void block_finished(const Block& block) override {
    const uint64_t number = number_of(block);
    // It ends after all of its warps.
    run_.note({Space::exit, Kind::wait, number | kEndOfWarps, (number | kEndOfWarps) + 1, 1});
    run_.note({Space::exit, Kind::write, number, number + 1});
    run_.note({Space::tensor_memory, Kind::write, block.sm->index, block.sm->index + 1});
  }

  bool wants_memory_events() const override { return true; }

  void memory_accessed(const machine::MemoryAccess& access) override {
    const Kind kind = access.kind == machine::AccessKind::read ? Kind::read : Kind::write;
    machine::for_each_lane(access.lanes, [&](uint32_t lane) {
      if (access.shared != nullptr) {
        const uint32_t address = access.shared[lane];
        if (address >> machine::kSharedRankShift != access.fragment->block().rank) {
          if (const Block* target = access.fragment->cluster().block_of(address)) note_that_block_lives(*target);
        }
        if (access.order == machine::AccessOrder::weak) return;
        const uint64_t at = place_of(access.fragment->cluster(), address);
        run_.note({Space::shared, kind, at, at + access.bytes});
      } else if (access.order != machine::AccessOrder::weak) {
        run_.note({Space::global, kind, access.global[lane], access.global[lane] + access.bytes});
      }
    });
  }

  void threads_met(const machine::Rendezvous& meeting) override {
    using machine::RendezvousKind;
    const bool of_cluster = meeting.block == nullptr;
    const Space space = of_cluster ? Space::cluster_barrier : Space::named_barrier;
    const uint64_t at = (of_cluster ? number_of(*meeting.cluster) << 32 : number_of(*meeting.block)) + meeting.number;
    const uint64_t generation =
        of_cluster ? meeting.cluster->barrier_generation : meeting.block->named_barriers[meeting.number].generation;
    switch (meeting.kind) {
      case RendezvousKind::arrive:
      case RendezvousKind::arrive_relaxed: return run_.note({space, Kind::arrive, at, at + 1, generation});
      case RendezvousKind::complete: return;
      case RendezvousKind::pass:
        return run_.note_for(*meeting.fragment->warp, {space, Kind::wait, at, at + 1, generation});
      case RendezvousKind::exit: return;
    }
  }

  void tensor_memory_changed(const machine::TensorEvent& event) override {
    if (event.kind != machine::TensorEventKind::allocate && event.kind != machine::TensorEventKind::deallocate) return;
    const uint64_t number = event.fragment->block().sm->index;
    run_.note({Space::tensor_memory, Kind::write, number, number + 1});
  }

 private:
  void note_that_block_lives(const Block& block) {
    const uint64_t number = number_of(block);
    run_.note({Space::exit, Kind::read, number, number + 1});
  }

  DecidedRun& run_;
};

std::unique_ptr<machine::Observer> DecidedRun::make_observer() { return std::make_unique<Notes>(*this); }

void DecidedRun::note(Touch touch) {
  if (trace_.empty()) return;  // a block starts
  std::vector<Touch>& touches = trace_.back().touches;
  const bool is_known = std::any_of(touches.begin(), touches.end(), [&](const Touch& each) {
    return each.space == touch.space && each.kind == touch.kind && each.begin == touch.begin && each.end == touch.end &&
           each.phase == touch.phase;
  });
  if (!is_known) touches.push_back(touch);
}

void DecidedRun::note_for(const Warp& warp, Touch touch) {
  const Actor actor = exploration::actor_of(warp);
  if (!trace_.empty() && trace_.back().actor == actor) return note(touch);
  later_[actor].push_back(touch);
}

machine::Cycle DecidedRun::completion(const Fragment& issuer, machine::Cycle usual) {
  const Cluster& cluster = issuer.cluster();
  const Actor event = exploration::actor_of(*issuer.warp) | ++issuer.warp->choices_made;
  origins_[{&cluster, cluster.next_sequence}] = {event, static_cast<uint32_t>(trace_.size() - 1)};
  return usual;
}

bool DecidedRun::gives_up(const Fragment& fragment) {
  // The loop of a wait is a label, the try_wait and a branch, with little in between.
  constexpr uint32_t kMostBetween = 16;
  const std::vector<machine::OrderedPlace>& order = fragment.grid().kernel->order;
  const uint32_t first = fragment.pc - std::min(fragment.pc, kMostBetween);
  bool is_repeated = false;
  for (uint32_t pc = first; pc <= fragment.pc; ++pc) {
    is_repeated = is_repeated || order[pc].head == machine::LoopHead::polls;
  }
  tries_once_ = tries_once_ || !is_repeated;
  return false;
}

void DecidedRun::note_questions(const Warp& warp, Step& step) {
  for (const auto& fragment : warp.fragments) {
    if (fragment->state != machine::FragmentState::ready) continue;
    const machine::InstructionTraits& traits = warp.grid->kernel->traits_at(fragment->pc);
    if (!traits.polls || traits.suspends) continue;
    const uint64_t at = number_of(*warp.block);
    step.touches.push_back({Space::mbarrier, Kind::poll, at, at + (uint64_t{1} << machine::kSharedRankShift)});
  }
}

Actor DecidedRun::actor_of(const machine::Candidate& candidate) {
  if (candidate.warp != nullptr) return exploration::actor_of(*candidate.warp);
  return origins_.at({candidate.cluster, candidate.event->when.sequence}).actor;
}

void DecidedRun::mark_idle(Actor actor, uint32_t steps) {
  for (size_t i = trace_.size(); i-- > 0 && steps > 0;) {
    Step& step = trace_[i];
    if (step.actor != actor) continue;
    step.idle = --steps == 0 ? Step::Idle::first : Step::Idle::next;
    for (Touch& touch : step.touches) {
      // An atomic that has changed nothing has only read.
      const bool is_access = touch.space == Space::shared || touch.space == Space::global;
      if (is_access && touch.kind == Kind::write) touch.kind = Kind::read;
    }
  }
}

void DecidedRun::turn_ended(Warp& warp) {
  if (trace_.empty()) return;  // a block starts
  const Step& step = trace_.back();
  const Actor actor = exploration::actor_of(warp);
  if (step.actor != actor) return;  // the same
  const bool noticed =
      warp.grid->effects != effects_ || std::any_of(step.touches.begin(), step.touches.end(), [](const Touch& touch) {
        return touch.kind == Kind::arrive || touch.kind == Kind::complete;
      });
  const uint32_t idle = idle_turns_.turn_ended(warp, noticed);
  if (idle == 0) return;
  mark_idle(actor, idle);
  spinning_.insert(actor);
}

std::optional<size_t> DecidedRun::choose(const Step& step) const {
  const auto index_of = [&](Actor actor) -> std::optional<size_t> {
    const auto found = std::find(step.enabled.begin(), step.enabled.end(), actor);
    if (found == step.enabled.end()) return std::nullopt;
    return static_cast<size_t>(found - step.enabled.begin());
  };
  if (trace_.size() < guide_.prefix.size()) return index_of(guide_.prefix[trace_.size()]);
  const auto may_go_on = [&](Actor actor) { return !guide_.asleep.contains(actor) && !spinning_.contains(actor); };
  // The one that had the last step goes on if it can: so there are few switches. One that only asked is last.
  if (!trace_.empty() && may_go_on(trace_.back().actor)) {
    if (const auto same = index_of(trace_.back().actor)) return same;
  }
  std::optional<size_t> spins;
  for (size_t i = 0; i < step.enabled.size(); ++i) {
    if (may_go_on(step.enabled[i])) return i;
    if (!spins && !guide_.asleep.contains(step.enabled[i])) spins = i;
  }
  return spins;
}

std::optional<size_t> DecidedRun::next(const std::vector<machine::Candidate>& candidates) {
  const bool is_known = trace_.size() < guide_.prefix.size();
  if (!is_known && !trace_.empty()) wake(guide_.asleep, trace_.back());
  if (trace_.size() == most_steps_) {
    is_too_long_ = true;
    return std::nullopt;
  }
  Step step;
  std::vector<size_t> index;  // of the enabled ones
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].will_be_idle) {
      step.repeating.push_back(actor_of(candidates[i]));
    } else {
      step.enabled.push_back(actor_of(candidates[i]));
      index.push_back(i);
    }
  }
  const std::optional<size_t> chosen = choose(step);
  if (!chosen) {
    (is_known ? has_diverged_ : is_redundant_) = true;
    return std::nullopt;
  }
  step.actor = step.enabled[*chosen];
  spinning_.erase(step.actor);
  const machine::Candidate& candidate = candidates[index[*chosen]];
  effects_ = candidate.cluster->grid->effects;
  const auto number = static_cast<uint32_t>(trace_.size());
  if (const machine::Event* event = candidate.event) {
    step.after = origins_.at({candidate.cluster, event->when.sequence}).step;
    if (event->in_order != nullptr) {
      const auto [last, is_first] = last_in_order_.try_emplace(event->in_order, number);
      if (!is_first) step.behind = std::exchange(last->second, number);
    }
    // The answer depends on which clusters are left.
    const machine::Grid& grid = *candidate.cluster->grid;
    if (grid.kernel->takes_over_clusters && grid.kernel->traits_at(event->origin.pc).takes_over_clusters) {
      step.touches.push_back({Space::launches, Kind::write, 0, 1});
    }
  } else {
    note_questions(*candidate.warp, step);
  }
  if (const auto found = later_.find(step.actor); found != later_.end()) {
    step.touches.insert(step.touches.end(), found->second.begin(), found->second.end());
    later_.erase(found);
  }
  trace_.push_back(std::move(step));
  return index[*chosen];
}

}  // namespace stagecraft::emulator::exploration
