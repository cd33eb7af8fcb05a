#include "textflag.h"

// amd64 keeps stores in their order, but for those to write-combining memory,
// around which SFENCE stands.

// func store32(to slotsStart, v uint32)
TEXT ·store32(SB), NOSPLIT, $0-12
	MOVQ to+0(FP), AX
	MOVL v+8(FP), CX
	MOVL CX, (AX)
	RET

// func store64(to slotsStart, v uint64)
TEXT ·store64(SB), NOSPLIT, $0-16
	MOVQ to+0(FP), AX
	MOVQ v+8(FP), CX
	MOVQ CX, (AX)
	RET

// func storeWC32(to slotsStart, v uint32)
TEXT ·storeWC32(SB), NOSPLIT, $0-12
	MOVQ to+0(FP), AX
	MOVL v+8(FP), CX
	SFENCE
	MOVL CX, (AX)
	SFENCE
	RET

// func storeWC64(to slotsStart, v uint64)
TEXT ·storeWC64(SB), NOSPLIT, $0-16
	MOVQ to+0(FP), AX
	MOVQ v+8(FP), CX
	SFENCE
	MOVQ CX, (AX)
	SFENCE
	RET

// func copy64(to slotsStart, from *[64]byte)
TEXT ·copy64(SB), NOSPLIT, $0-16
	MOVQ  to+0(FP), AX
	MOVQ  from+8(FP), CX
	MOVOU (CX), X0
	MOVOU 16(CX), X1
	MOVOU 32(CX), X2
	MOVOU 48(CX), X3
	MOVOU X0, (AX)
	MOVOU X1, 16(AX)
	MOVOU X2, 32(AX)
	MOVOU X3, 48(AX)
	RET

// func copyWC(to, from slotsStart, n int)
TEXT ·copyWC(SB), NOSPLIT, $0-24
	MOVQ to+0(FP), AX
	MOVQ from+8(FP), CX
	MOVQ n+16(FP), DX
	SFENCE

next:
	MOVOU (CX), X0
	MOVOU 16(CX), X1
	MOVOU 32(CX), X2
	MOVOU 48(CX), X3
	MOVOU X0, (AX)
	MOVOU X1, 16(AX)
	MOVOU X2, 32(AX)
	MOVOU X3, 48(AX)
	ADDQ  $64, CX
	ADDQ  $64, AX
	SUBQ  $64, DX
	JNE   next
	SFENCE
	RET

// func startWC()
TEXT ·startWC(SB), NOSPLIT, $0-0
	SFENCE
	RET

// func fromDevice()
TEXT ·fromDevice(SB), NOSPLIT, $0-0
	LFENCE
	RET
