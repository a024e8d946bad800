// Lanes that are CPU threads, for the headers of tier.
#pragma once

#include "yield.hpp"

#include "../../../internal/devicerig/rig/lanes.hpp"
