// Names the answer to a chapter's exercise that a test program was built from. answer.cpp is compiled for each answer.
#pragma once

namespace stagecraft::chapters {

extern const char* const kSourceRoot;
/// "03_producer_consumer_pipeline"
extern const char* const kChapter;
/// The files that the learner edits, relative to the source root, with spaces between.
extern const char* const kAnswerFiles;

}  // namespace stagecraft::chapters
