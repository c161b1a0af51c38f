// Which answer to a chapter's exercise a test program was built from.
#pragma once

#include <string>
#include <vector>

namespace stagecraft::chapters {

std::string source_root();
/// "03_producer_consumer_pipeline"
std::string chapter();
/// "03"
inline std::string chapter_number() { return chapter().substr(0, 2); }
/// The files that the learner edits, relative to the source root.
std::vector<std::string> answer_files();

}  // namespace stagecraft::chapters
