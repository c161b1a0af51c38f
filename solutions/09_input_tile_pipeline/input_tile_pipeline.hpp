// Chapter 09, solved: the library's own header.
#pragma once

#include "stagecraft/input_tile_pipeline.hpp"
