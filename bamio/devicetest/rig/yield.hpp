// Many more threads than cores wait here for one another: a wait gives its core
// away at once. Queue code finds this relax before the one of clock.cuh.
#pragma once

#include <sched.h>

namespace tritier {
namespace bamio {

inline void relax() { sched_yield(); }

}  // namespace bamio
}  // namespace tritier

#include "bamio.cuh"
