#include "textflag.h"

// ccallEntry is called on the system stack with the C convention: DI is a
// *ccall. It loads the arguments as the System V ABI of amd64 wants them: six
// in registers, the others on the stack, which is a multiple of 16 at the
// call. BX, which C functions preserve, holds the *ccall meanwhile.
TEXT ccallEntry(SB), NOSPLIT|NOFRAME, $0
	PUSHQ BP
	MOVQ  SP, BP
	PUSHQ BX
	SUBQ  $56, SP
	MOVQ  DI, BX

	MOVQ 56(BX), AX
	MOVQ AX, 0(SP)
	MOVQ 64(BX), AX
	MOVQ AX, 8(SP)
	MOVQ 72(BX), AX
	MOVQ AX, 16(SP)
	MOVQ 80(BX), AX
	MOVQ AX, 24(SP)
	MOVQ 88(BX), AX
	MOVQ AX, 32(SP)
	MOVQ 96(BX), AX
	MOVQ AX, 40(SP)

	MOVQ 8(BX), DI
	MOVQ 16(BX), SI
	MOVQ 24(BX), DX
	MOVQ 32(BX), CX
	MOVQ 40(BX), R8
	MOVQ 48(BX), R9
	XORL AX, AX     // no floating-point arguments, for functions with "..."
	MOVQ 0(BX), R11
	CALL R11
	MOVQ AX, 0(BX)  // the result, where the function was

	ADDQ $56, SP
	POPQ BX
	POPQ BP
	XORL AX, AX
	RET

// The address of ccallEntry, for Go.
DATA ·ccallAddress(SB)/8, $ccallEntry(SB)
GLOBL ·ccallAddress(SB), NOPTR|RODATA, $8
