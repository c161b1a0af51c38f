// Compiled once for each answer; everything else in a chapter's test is compiled once for all of them. There are more
// than a hundred answers, so nothing is included here that takes time.
#include "answer.hpp"

namespace stagecraft::chapters {

const char* const kSourceRoot = STAGECRAFT_SOURCE_ROOT;
const char* const kChapter = STAGECRAFT_CHAPTER;
const char* const kAnswerFiles = STAGECRAFT_ANSWER_FILES;

}  // namespace stagecraft::chapters
