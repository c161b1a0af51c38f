// Chapter 14, solved: the library's own header.
#pragma once

#include "stagecraft/scale_factors.hpp"
