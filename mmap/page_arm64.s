#include "textflag.h"

// The barriers, by what stands in their field CRm.
#define DMB_OSHLD DMB $1 // loads before loads and stores, as far as devices
#define DMB_OSHST DMB $2 // stores before stores, as far as devices
#define DSB_ST DSB $14   // stores done before anything that follows

// func store32(to slotsStart, v uint32)
TEXT ·store32(SB), NOSPLIT, $0-12
	MOVD to+0(FP), R0
	MOVW v+8(FP), R1
	DMB_OSHST
	MOVW R1, (R0)
	RET

// func store64(to slotsStart, v uint64)
TEXT ·store64(SB), NOSPLIT, $0-16
	MOVD to+0(FP), R0
	MOVD v+8(FP), R1
	DMB_OSHST
	MOVD R1, (R0)
	RET

// func storeWC32(to slotsStart, v uint32)
TEXT ·storeWC32(SB), NOSPLIT, $0-12
	MOVD to+0(FP), R0
	MOVW v+8(FP), R1
	DSB_ST
	MOVW R1, (R0)
	DSB_ST
	RET

// func storeWC64(to slotsStart, v uint64)
TEXT ·storeWC64(SB), NOSPLIT, $0-16
	MOVD to+0(FP), R0
	MOVD v+8(FP), R1
	DSB_ST
	MOVD R1, (R0)
	DSB_ST
	RET

// func copy64(to slotsStart, from *[64]byte)
TEXT ·copy64(SB), NOSPLIT, $0-16
	MOVD to+0(FP), R0
	MOVD from+8(FP), R1
	VLD4 (R1), [V0.D2, V1.D2, V2.D2, V3.D2]
	VST4 [V0.D2, V1.D2, V2.D2, V3.D2], (R0)
	RET

// func copyWC(to, from slotsStart, n int)
TEXT ·copyWC(SB), NOSPLIT, $0-24
	MOVD to+0(FP), R0
	MOVD from+8(FP), R1
	MOVD n+16(FP), R2
	DSB_ST

next:
	VLD4 (R1), [V0.D2, V1.D2, V2.D2, V3.D2]
	VST4 [V0.D2, V1.D2, V2.D2, V3.D2], (R0)
	ADD  $64, R1
	ADD  $64, R0
	SUB  $64, R2
	CBNZ R2, next
	DSB_ST
	RET

// func startWC()
TEXT ·startWC(SB), NOSPLIT, $0-0
	DSB_ST
	RET

// func fromDevice()
TEXT ·fromDevice(SB), NOSPLIT, $0-0
	DMB_OSHLD
	RET
