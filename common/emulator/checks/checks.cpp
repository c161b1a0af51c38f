#include "emulator/checks/checks.hpp"

#include "emulator/checks/deadlock/deadlock_check.hpp"
#include "emulator/checks/global_memory/global_memory_check.hpp"
#include "emulator/checks/initialisation/gap_check.hpp"
#include "emulator/checks/initialisation/stale_operand_check.hpp"
#include "emulator/checks/initialisation/unread_check.hpp"
#include "emulator/checks/initialisation/unwritten_check.hpp"
#include "emulator/checks/memory_checks.hpp"
#include "emulator/checks/proxies/alignment_check.hpp"
#include "emulator/checks/proxies/proxy_check.hpp"
#include "emulator/checks/proxies/tensor_map_check.hpp"
#include "emulator/checks/race/race_check.hpp"
#include "emulator/checks/synchronisation/barrier_check.hpp"
#include "emulator/checks/synchronisation/lost_copy_check.hpp"
#include "emulator/checks/synchronisation/member_mask_check.hpp"
#include "emulator/checks/synchronisation/misuse_report.hpp"
#include "emulator/checks/synchronisation/register_count_check.hpp"
#include "emulator/checks/synchronisation/remote_exit_check.hpp"
#include "emulator/checks/synchronisation/remote_start_check.hpp"
#include "emulator/checks/synchronisation/store_read_check.hpp"
#include "emulator/checks/synchronisation/warpgroup_register_check.hpp"
#include "emulator/checks/tensor_memory/leak_check.hpp"
#include "emulator/checks/tensor_memory/nan_scale_check.hpp"
#include "emulator/checks/tensor_memory/tensor_memory_check.hpp"

namespace stagecraft::emulator::checks {

namespace {

/// In the order in which they see an event, and report what they find at one time. The race check comes last: it adds
/// the event to the history of memory accesses, which the others see as it was before. That of global memory has a
/// history of its own.
template <typename... More>
using AllMemoryChecks = MemoryChecks<BarrierCheck,            //
                                     StoreReadCheck,          //
                                     WarpgroupRegisterCheck,  //
                                     ProxyCheck,              //
                                     AlignmentCheck,          //
                                     TensorMapCheck,          //
                                     TensorMemoryCheck,       //
                                     NanScaleCheck,           //
                                     GapCheck,                //
                                     UnwrittenCheck,          //
                                     StaleOperandCheck,       //
                                     UnreadCheck,             //
                                     RemoteStartCheck,        //
                                     RemoteExitCheck,         //
                                     RaceCheck,               //
                                     More...>;

}  // namespace

std::unique_ptr<machine::Observer> make_memory_checks(GlobalHistory* history, bool reuse) {
  if (history == nullptr) {
    auto made = std::make_unique<AllMemoryChecks<>>();
    made->get<BarrierCheck>().judge_reuse(reuse);
    return made;
  }
  auto made = std::make_unique<AllMemoryChecks<GlobalMemoryCheck>>();
  made->get<GlobalMemoryCheck>().use(*history);
  made->get<BarrierCheck>().judge_reuse(reuse);
  return made;
}

std::vector<std::unique_ptr<machine::Observer>> make_checks(bool memory, bool goes_on, GlobalHistory* history) {
  std::vector<std::unique_ptr<machine::Observer>> made;
  made.push_back(std::make_unique<MemberMaskCheck>());
  made.push_back(std::make_unique<LeakCheck>());
  made.push_back(std::make_unique<RegisterCountCheck>());
  if (goes_on) made.push_back(std::make_unique<LostCopyCheck>());
  if (memory || history != nullptr) made.push_back(make_memory_checks(history, !goes_on));
  made.push_back(std::make_unique<MisuseReport>());
  made.push_back(std::make_unique<DeadlockCheck>());
  return made;
}

}  // namespace stagecraft::emulator::checks
