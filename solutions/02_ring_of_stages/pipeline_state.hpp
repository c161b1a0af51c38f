// Chapter 02's PipelineState became the library's: this is the whole solution.
#pragma once

#include "stagecraft/pipeline_state.hpp"
