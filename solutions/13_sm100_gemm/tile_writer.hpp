// Chapter 13, solved: the library's own header.
#pragma once

#include "stagecraft/tile_writer.hpp"
