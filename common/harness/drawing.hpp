// An SVG picture of a lesson: boxes and words in colours for both themes. print_or_compare() of picture.hpp prints it.
#pragma once

#include <sstream>
#include <string>

namespace stagecraft::harness {

/// A picture that grows by what is drawn into it. Coordinates are pixels from the upper left corner.
///
/// Styles of boxes: "tone0" to "tone4" are five colours, "filled" is the colour of what matters, "free" is grey, "one"
/// is the outline of what is followed. Styles of words: "quiet", "small", "middle", "end", and pairs such as "quiet
/// middle".
class Drawing {
 public:
  /// @param title  what the picture shows, for those who cannot see it.
  Drawing(int width, int height, const std::string& title) {
    out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << " " << height << "\" width=\""
         << width << "\" height=\"" << height
         << "\" role=\"img\" font-family=\"sans-serif\" font-size=\"13\">\n  <title>" << title << "</title>\n"
         << kStyle;
  }

  /// Draws a box.
  void box(const std::string& style, int x, int y, int width, int height) {
    begin(std::to_string(y));
    out_ << "<rect" << attribute(style) << " x=\"" << x << "\" y=\"" << y << "\" width=\"" << width << "\" height=\""
         << height << "\"/>";
  }
  /// Writes words, which begin, end or have their middle at x.
  void words(const std::string& style, int x, int y, const std::string& text) {
    if (row_.empty()) begin("words");
    out_ << "<text" << attribute(style) << " x=\"" << x << "\" y=\"" << y << "\">" << text << "</text>";
  }
  /// Draws a line; `path` is that of SVG, such as "M0 0 H100".
  void line(const std::string& style, const std::string& path) {
    begin("lines " + style);
    out_ << "<path" << attribute(style) << " d=\"" << path << "\"/>";
  }
  /// The whole picture.
  std::string finish() const { return out_.str() + "\n</svg>\n"; }

 private:
  static constexpr char kStyle[] = R"(  <style>
    :root { color-scheme: light dark; }
    text { fill: #222; } .quiet { fill: #666; font-size: 12px; } .small { font-size: 11px; } .middle { text-anchor: middle; } .end { text-anchor: end; }
    rect, path { stroke: #777; fill: none; } .filled { fill: #d8e8f8; stroke: #36c; } .free { fill: #eee; } .one { stroke: #c00; stroke-width: 2; fill: none; }
    .tone0 { fill: #d8e8f8; } .tone1 { fill: #f8e4c8; } .tone2 { fill: #d9f0d5; } .tone3 { fill: #ecdcf4; } .tone4 { fill: #f6d5d5; }
    @media (prefers-color-scheme: dark) {
      text { fill: #ddd; } .quiet { fill: #aaa; } rect, path { stroke: #888; } .filled { fill: #1d3147; stroke: #6af; } .free { fill: #2a2a2a; } .one { stroke: #f66; }
      .tone0 { fill: #1d3147; } .tone1 { fill: #473215; } .tone2 { fill: #1c3d1a; } .tone3 { fill: #3a2347; } .tone4 { fill: #4a2222; }
    }
  </style>)";

  /// Begins a line of the file, unless the one before it was in the same row: boxes side by side, or lines of one
  /// style.
  void begin(const std::string& row) {
    if (row != row_) out_ << "\n  ";
    row_ = row;
  }
  static std::string attribute(const std::string& style) { return style.empty() ? "" : " class=\"" + style + "\""; }

  std::ostringstream out_;
  std::string row_;  ///< what the line of the file holds; words go with what they follow
};

}  // namespace stagecraft::harness
