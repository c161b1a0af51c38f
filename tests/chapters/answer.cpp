// Compiled once for each answer; everything else in a chapter's test is compiled once for all of them.
#include "answer.hpp"

#include <sstream>

namespace stagecraft::chapters {

std::string source_root() { return STAGECRAFT_SOURCE_ROOT; }

std::string chapter() { return STAGECRAFT_CHAPTER; }

std::vector<std::string> answer_files() {
  std::istringstream names(STAGECRAFT_ANSWER_FILES);
  std::vector<std::string> files;
  for (std::string name; names >> name;) files.push_back(name);
  return files;
}

}  // namespace stagecraft::chapters
