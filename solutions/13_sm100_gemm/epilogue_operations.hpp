// Chapter 13, solved: the library's own header.
#pragma once

#include "stagecraft/epilogue_operations.hpp"
