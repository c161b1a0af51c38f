// Chapter 03, solved: the library's own header.
#pragma once

#include "stagecraft/producer_consumer_pipeline.hpp"
