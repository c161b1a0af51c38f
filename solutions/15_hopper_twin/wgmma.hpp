// Chapter 15, solved: the library's own header.
#pragma once

#include "stagecraft/wgmma.hpp"
