// cp.async.bulk groups (commit_group, wait_group) of the threads of one block.
#pragma once

namespace stagecraft::emulator::units {

struct BulkGroups {};

}  // namespace stagecraft::emulator::units
