// Chapter 12, solved: the library's own header.
#pragma once

#include "stagecraft/launch_control.hpp"
