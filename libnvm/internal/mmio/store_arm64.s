//go:build !race

#include "textflag.h"

// The barrier is outer shareable, store before store (DMB OSHST): a device
// outside the inner domain must see the entry before the doorbell.
//
// func Store32(p *uint32, v uint32)
TEXT ·Store32(SB), NOSPLIT, $0-12
	MOVD p+0(FP), R0
	MOVW v+8(FP), R1
	DMB  $2
	MOVW R1, (R0)
	RET
