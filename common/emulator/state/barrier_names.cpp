#include "emulator/state/barrier_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "emulator/state/kernel.hpp"
#include "emulator/state/mbarrier_table.hpp"
#include "emulator/state/source_expressions.hpp"

namespace stagecraft::emulator::machine {

namespace {

/// Barriers that the same line initialises, and what that line calls them.
struct Group {
  ObjectPath path;
  std::set<uint32_t> offsets;
};

const SharedVariable* variable_at(const Kernel& kernel, uint32_t offset) {
  const SharedVariable* dynamic = nullptr;
  for (const SharedVariable& variable : kernel.shared_variables) {
    if (offset < variable.offset) continue;
    if (offset < variable.offset + variable.size) return &variable;
    if (variable.size == 0) dynamic = &variable;
  }
  return dynamic;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (std::string name : names) {
    while (name.size() > 1 && name.ends_with('_')) name.pop_back();  // of a data member
    text += (text.empty() ? "" : ".") + name;
  }
  return text;
}

/// Names of the elements of an array, or of the one object.
std::string spell(const ObjectPath& path, uint32_t index) {
  std::string name = joined(path.before);
  if (!path.index.empty()) name += fmt::format("[{}]", index);
  return path.after.empty() ? name : name + "." + joined(path.after);
}

/// The distance between elements that are at equal distances; nothing where they are not.
std::optional<uint32_t> stride_of(const std::set<uint32_t>& offsets) {
  uint32_t stride = 0;
  for (auto next = std::next(offsets.begin()); next != offsets.end(); ++next) {
    const uint32_t distance = *next - *std::prev(next);
    if (stride != 0 && distance != stride) return std::nullopt;
    stride = distance;
  }
  return stride;
}

class Naming {
 public:
  Naming(const Kernel& kernel, const std::map<uint32_t, std::set<uint32_t>>& initialised_by)
      : kernel_(kernel), initialised_by_(initialised_by) {}

  std::map<uint32_t, std::string> names() {
    read();
    share_out();
    std::map<uint32_t, std::set<std::string>> names_at;
    std::map<std::string, std::set<uint32_t>> barriers_of;
    for (const Group& group : groups_) {
      if (is_variable(group)) continue;
      uint32_t index = 0;
      for (const uint32_t offset : group.offsets) {
        const std::string name = qualified(group.path, index++, offset);
        names_at[offset].insert(name);
        barriers_of[name].insert(offset);
      }
    }
    std::map<uint32_t, std::string> names;
    for (const auto& [offset, all] : names_at) {
      const std::string& name = *all.begin();
      if (all.size() == 1 && !name.empty() && barriers_of[name].size() == 1) names.emplace(offset, name);
    }
    return names;
  }

 private:
  /// Makes a group for each line; barriers of which the PTX leaves the line open come to unsettled_.
  void read() {
    SourceExpressions source(kernel_);
    std::map<ptx::SourceId, Group> by_source;
    std::map<ptx::SourceId, std::optional<ObjectPath>> paths;
    for (const auto& [offset, pcs] : initialised_by_) {
      for (const uint32_t pc : pcs) {
        const OpPlace& place = kernel_.places[pc];
        if (place.function == nullptr || place.source == 0) {
          nameless_.insert(offset);
          continue;
        }
        if (!place.function->body[place.instruction].source_is_certain) {
          unsettled_.insert(offset);
          continue;
        }
        const auto [path, is_new] = paths.try_emplace(place.source);
        if (is_new) path->second = source.object_of(pc, "mbarrier.init");
        if (!path->second) {
          nameless_.insert(offset);
          continue;
        }
        Group& group = by_source[place.source];
        group.path = *path->second;
        group.offsets.insert(offset);
      }
    }
    for (auto& [source_id, group] : by_source) {
      const auto stride = stride_of(group.offsets);
      const bool is_one = group.offsets.size() == 1;
      if (!stride || (group.path.index.empty() && !is_one) ||
          (group.path.after.empty() && !is_one && *stride != kMbarrierBytes)) {
        nameless_.insert(group.offsets.begin(), group.offsets.end());
      } else {
        groups_.push_back(std::move(group));
      }
    }
  }

  /// Continues arrays whose first elements are known by the barriers that follow: all must go to exactly one.
  void share_out() {
    std::set<uint32_t> left = unsettled_;
    // In one variable with barriers that nothing names, those of unknown lines could be of the same array.
    std::set<const SharedVariable*> unclear;
    for (const uint32_t offset : nameless_) unclear.insert(variable_at(kernel_, offset));
    for (Group& group : groups_) {
      if (group.path.index.empty() || !group.path.after.empty()) continue;
      for (uint32_t next = *group.offsets.rbegin() + kMbarrierBytes; left.contains(next); next += kMbarrierBytes) {
        if (variable_at(kernel_, next) != variable_at(kernel_, *group.offsets.begin())) break;
        group.offsets.insert(next);
        left.erase(next);
      }
    }
    if (!left.empty()) share_out_structures(left);
    for (const uint32_t offset : left) unclear.insert(variable_at(kernel_, offset));
    std::set<const SharedVariable*> with_unsettled;
    for (const uint32_t offset : unsettled_) with_unsettled.insert(variable_at(kernel_, offset));
    std::erase_if(groups_, [&](const Group& group) {
      const SharedVariable* variable = variable_at(kernel_, *group.offsets.begin());
      return unclear.contains(variable) && with_unsettled.contains(variable);
    });
  }

  /// The same for members of one array of structures, which are further apart: "stages[0].full", "stages[0].empty".
  void share_out_structures(std::set<uint32_t>& left) {
    std::vector<Group*> members;
    for (Group& group : groups_) {
      if (group.path.index.empty() || group.path.after.empty()) continue;
      if (!members.empty() && members.front()->path.before != group.path.before) return;
      members.push_back(&group);
    }
    if (members.empty()) return;
    const auto first = [](const Group* group) { return *group->offsets.begin(); };
    const auto [lowest, highest] =
        std::minmax_element(members.begin(), members.end(), [&](Group* a, Group* b) { return first(a) < first(b); });
    if (*left.begin() <= first(*highest)) return;
    const uint32_t stride = *left.begin() - first(*lowest);
    for (Group* member : members) {
      for (uint32_t next = first(member) + stride; left.contains(next); next += stride) {
        member->offsets.insert(next);
        left.erase(next);
      }
    }
  }

  /// Whether the barriers are a variable of their own, which the PTX names.
  bool is_variable(const Group& group) const {
    const SharedVariable* variable = variable_at(kernel_, *group.offsets.begin());
    return variable != nullptr && variable->size == group.offsets.size() * kMbarrierBytes;
  }

  std::string qualified(ObjectPath path, uint32_t index, uint32_t offset) const {
    const SharedVariable* variable = variable_at(kernel_, offset);
    if (variable == nullptr) return {};
    const std::string root = path.before.front().substr(0, path.before.front().find('['));
    if (variable->size == 0) return spell(path, index);
    const bool is_own = root == variable->name;
    const size_t names = path.before.size() + path.after.size();
    if (is_own && names == 1) return {};  // an element of the variable
    if (!is_own && names == 1) path.before.insert(path.before.begin(), variable->name);
    const bool is_dispensable = is_own ? path.is_wrapped && path.before.size() == 2 : path.is_member || names == 1;
    if (is_dispensable && path.after.empty() && is_only(*variable)) {
      path.before.erase(path.before.begin(), path.before.end() - 1);
    }
    return spell(path, index);
  }

  /// Whether all barriers are in it, so that it need not be named.
  bool is_only(const SharedVariable& variable) const {
    return std::all_of(initialised_by_.begin(), initialised_by_.end(),
                       [&](const auto& each) { return variable_at(kernel_, each.first) == &variable; });
  }

  const Kernel& kernel_;
  const std::map<uint32_t, std::set<uint32_t>>& initialised_by_;
  std::vector<Group> groups_;
  std::set<uint32_t> unsettled_, nameless_;
};

}  // namespace

void BarrierNames::forget() {
  const std::lock_guard lock(mutex_);
  initialised_by_.clear();
  is_current_ = false;
}

void BarrierNames::note(uint32_t offset, uint32_t pc) {
  const std::lock_guard lock(mutex_);
  if (initialised_by_[offset].insert(pc).second) is_current_ = false;
}

std::string BarrierNames::name_of(const Kernel& kernel, uint32_t offset) {
  const std::lock_guard lock(mutex_);
  if (!is_current_) names_ = Naming(kernel, initialised_by_).names();
  is_current_ = true;
  const auto name = names_.find(offset);
  return name == names_.end() ? std::string() : name->second;
}

}  // namespace stagecraft::emulator::machine
