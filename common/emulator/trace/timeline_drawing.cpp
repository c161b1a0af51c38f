#include "emulator/trace/timeline_drawing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace stagecraft::emulator::trace {

using machine::Cycle;

namespace {

/// The smallest of 1, 2, 5, 10, 20, ... that is not below `value`.
Cycle round_up(Cycle value) {
  for (Cycle unit = 1;; unit *= 10) {
    for (const Cycle factor : {1, 2, 5}) {
      if (unit * factor >= value) return unit * factor;
    }
  }
}

std::string place(const Timeline& timeline, uint32_t pc) {
  const std::string source = timeline.kernel()->describe_source(pc);
  return source.empty() ? timeline.kernel()->describe_instruction(pc) : source;
}

/// Rows whose bars may overlap, spread over as few tracks as they need.
std::vector<std::vector<const Span*>> tracks_of(const UnitRow& row) {
  std::vector<std::vector<const Span*>> tracks;
  for (const Span& span : row.spans) {
    auto track =
        std::find_if(tracks.begin(), tracks.end(), [&](const auto& each) { return each.back()->end <= span.begin; });
    if (track == tracks.end()) track = tracks.insert(tracks.end(), std::vector<const Span*>());
    track->push_back(&span);
  }
  return tracks;
}

bool is_empty(const std::vector<UnitRow>& rows) {
  return std::all_of(rows.begin(), rows.end(), [](const UnitRow& row) { return row.spans.empty(); });
}

std::string unit_label(const Timeline& timeline, const UnitRow& row, const char* name) {
  return timeline.blocks() == 1 ? name : fmt::format("block {} {}", row.block, name);
}

}  // namespace

std::string draw_text(const Timeline& timeline, size_t width) {
  const Cycle total = std::max<Cycle>(timeline.end(), 1);
  const Cycle column = round_up((total + width - 1) / width);
  const auto columns = static_cast<size_t>((total + column - 1) / column);
  const bool several = timeline.blocks() > 1;

  std::vector<std::pair<std::string, std::string>> rows;
  for (const WarpRow& warp : timeline.warps()) {
    // A column shows what most of its cycles were.
    std::vector<Cycle> present(columns, 0), waited(columns, 0);
    const auto add = [&](std::vector<Cycle>& sums, Cycle begin, Cycle end) {
      for (Cycle at = begin; at < end;) {
        const Cycle next = std::min(end, (at / column + 1) * column);
        sums[static_cast<size_t>(at / column)] += next - at;
        at = next;
      }
    };
    add(present, warp.begin, warp.end);
    for (const Span& wait : warp.waits) add(waited, wait.begin, wait.end);
    std::string line;
    for (size_t i = 0; i < columns; ++i) {
      line += 2 * present[i] < column && (i > 0 || present[i] == 0) ? ' ' : 2 * waited[i] > present[i] ? '.' : '#';
    }
    rows.emplace_back(warp.label(several), line);
  }
  const auto add_units = [&](const std::vector<UnitRow>& units, const char* name) {
    if (is_empty(units)) return;
    for (const UnitRow& unit : units) {
      std::vector<int> under_way(columns, 0);
      for (const Span& span : unit.spans) {
        const auto first = static_cast<size_t>(span.begin / column);
        const auto last = static_cast<size_t>((std::max(span.end, span.begin + 1) - 1) / column);
        for (size_t i = first; i <= last && i < columns; ++i) ++under_way[i];
      }
      std::string line;
      for (const int count : under_way) line += count == 0 ? ' ' : count > 9 ? '+' : static_cast<char>('0' + count);
      rows.emplace_back(unit_label(timeline, unit, name), line);
    }
  };
  add_units(timeline.copies(), "copies under way");
  add_units(timeline.multiplications(), "tensor core");

  size_t label_width = 0;
  for (const auto& [label, line] : rows) label_width = std::max(label_width, label.size());
  std::string text = fmt::format(
      "stagecraft: timeline of kernel {}, {}; {} cycles, {} to a column (# runs, . waits, digits: operations)\n",
      timeline.kernel()->display_name, several ? "its first cluster" : "its first block", total, column);
  for (auto& [label, line] : rows) {
    line.erase(line.find_last_not_of(' ') + 1);
    text += fmt::format("  {:<{}}  {}", label, label_width, line);
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  text += "  waits of at least a column, in cycles\n";
  for (const WarpRow& warp : timeline.warps()) {
    std::map<std::pair<std::string, std::string>, Cycle> sums;
    for (const Span& wait : warp.waits) {
      // The barriers of a ring are one to the reader.
      sums[{wait.what.substr(0, wait.what.find('[')), place(timeline, wait.pc)}] += wait.end - wait.begin;
    }
    std::string line;
    for (const auto& [key, cycles] : sums) {
      if (cycles < column) continue;
      line += fmt::format("{}{} for {} at {}", line.empty() ? "" : ", ", cycles, key.first, key.second);
    }
    if (!line.empty()) text += fmt::format("    {}: {}\n", warp.label(several), line);
  }
  return text;
}

namespace {

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      default: out += c;
    }
  }
  return out;
}

class Drawing {
 public:
  /// @param label  characters of the longest label of a row.
  Drawing(const Timeline& timeline, Cycle total, size_t label)
      : timeline_(timeline), total_(total), left_(kMargin + static_cast<int>(label) * kCharacter) {}

  void row(const std::string& label) {
    y_ += kRowHeight;
    body_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", left_ - 8, y_ + 12, escape(label));
  }
  void bar(std::string_view kind, Cycle begin, Cycle end, const std::string& title) {
    if (end <= begin) return;
    body_ += fmt::format(
        "<rect class=\"{}\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"><title>{}</title></rect>\n", kind,
        x(begin), y_, std::max(0.5, x(end) - x(begin)), kRowHeight - 4, escape(title));
  }
  void bar(std::string_view kind, const Span& span) {
    bar(kind, span.begin, span.end,
        fmt::format("{} {}, {} to {}, {}", kind == "wait" ? "waits for" : "", span.what, span.begin, span.end,
                    place(timeline_, span.pc)));
  }
  std::string finish(const std::string& title) {
    const Cycle tick = round_up((total_ + 7) / 8);
    std::string ticks;
    for (Cycle at = 0; at <= total_; at += tick) {
      ticks += fmt::format(
          "<line x1=\"{0:.1f}\" y1=\"28\" x2=\"{0:.1f}\" y2=\"{1}\"/><text class=\"quiet\" x=\"{0:.1f}\" y=\"{2}\" "
          "text-anchor=\"middle\">{3}</text>\n",
          x(at), y_ + kRowHeight, y_ + kRowHeight + 14, at);
    }
    const int height = y_ + kRowHeight + 24;
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
               "role=\"img\" font-family=\"sans-serif\" font-size=\"12\">\n<title>{2}</title>\n",
               left_ + kWidth + 20, height, escape(title)) +
           R"(<style>
  text { fill: #222; } .quiet { fill: #666; font-size: 11px; } line { stroke: #ddd; }
  .run { fill: #3a86c8; } .wait { fill: #dde4ea; } .copy { fill: #e08a1e; } .multiply { fill: #4a9c5d; }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd; } .quiet { fill: #aaa; } line { stroke: #444; } .run { fill: #5aa6e8; } .wait { fill: #333c44; }
  }
</style>
)" + fmt::format("<text x=\"8\" y=\"18\">{}</text>\n", escape(title)) +
           ticks + body_ + "</svg>\n";
  }

 private:
  // kCharacter: of a wide font; nobody knows the reader's.
  static constexpr int kMargin = 20, kCharacter = 8, kWidth = 900, kRowHeight = 18;
  double x(Cycle at) const { return left_ + static_cast<double>(at) * kWidth / static_cast<double>(total_); }

  const Timeline& timeline_;
  Cycle total_;
  int left_;  // where the bars begin
  int y_ = 14;
  std::string body_;
};

constexpr const char* kCopies = "copies";
constexpr const char* kTensorCore = "tensor core";

}  // namespace

std::string draw_svg(const Timeline& timeline) {
  const bool several = timeline.blocks() > 1;
  size_t label = 0;
  for (const WarpRow& warp : timeline.warps()) label = std::max(label, warp.label(several).size());
  for (const auto& [units, name] :
       {std::pair{&timeline.copies(), kCopies}, {&timeline.multiplications(), kTensorCore}}) {
    for (const UnitRow& unit : *units) label = std::max(label, unit_label(timeline, unit, name).size());
  }
  Drawing drawing(timeline, std::max<Cycle>(timeline.end(), 1), label);
  for (const WarpRow& warp : timeline.warps()) {
    drawing.row(warp.label(several));
    Cycle from = warp.begin;
    for (const Span& wait : warp.waits) {
      drawing.bar("run", from, wait.begin, fmt::format("runs, {} to {}", from, wait.begin));
      drawing.bar("wait", wait);
      from = wait.end;
    }
    drawing.bar("run", from, warp.end, fmt::format("runs, {} to {}", from, warp.end));
  }
  const auto draw_units = [&](const std::vector<UnitRow>& units, const char* name, const char* kind) {
    for (const UnitRow& unit : units) {
      bool first = true;
      for (const auto& track : tracks_of(unit)) {
        drawing.row(first ? unit_label(timeline, unit, name) : "");
        first = false;
        for (const Span* span : track) drawing.bar(kind, *span);
      }
    }
  };
  draw_units(timeline.copies(), kCopies, "copy");
  draw_units(timeline.multiplications(), kTensorCore, "multiply");
  return drawing.finish(fmt::format("{}, {}: cycles of virtual time", timeline.kernel()->display_name,
                                    several ? "the first cluster" : "the first block"));
}

}  // namespace stagecraft::emulator::trace
