// A constant that two sources of one Go file share.
#pragma once

#include "tritier.cuh"

TRITIER_EXPORT_CONST(variant_magic, 0x7417);
