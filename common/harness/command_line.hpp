// What a program says about a command line that it does not understand.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace stagecraft::harness {

/// Letters to insert, remove or replace, until one word is the other.
inline size_t edits_between(const std::string& from, const std::string& to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= from.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 1; j <= to.size(); ++j) {
      const size_t replaced = diagonal + (from[i - 1] != to[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, diagonal + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

/// For CLI::Option::check: an empty value, as of a variable of the shell that is not set, is not the default.
inline std::string refuse_empty(const std::string& value) { return value.empty() ? "the value is empty" : ""; }

/// One line, for CLI::App::failure_message: "gemm: there is no option --bata; did you mean --beta?".
inline std::string failure_in_a_line(const CLI::App* app, const CLI::Error& error) {
  const std::string name = app->get_name(), advice = " " + name + " --help lists the options\n";
  const std::vector<std::string> extras = app->remaining();
  if (extras.empty()) return name + ": " + error.what() + ";" + advice;
  const std::string word = extras.front().substr(0, extras.front().find('='));
  if (!word.starts_with("-")) return name + ": \"" + word + "\" is not expected;" + advice;
  std::string closest;
  for (const CLI::Option* option : app->get_options()) {
    for (const std::string& known : option->get_lnames()) {
      const std::string dashed = "--" + known;
      if (closest.empty() || edits_between(word, dashed) < edits_between(word, closest)) closest = dashed;
    }
  }
  const bool is_close = edits_between(word, closest) <= 2;
  return name + ": there is no option " + word + (is_close ? "; did you mean " + closest + "?" : ";") + advice;
}

}  // namespace stagecraft::harness
