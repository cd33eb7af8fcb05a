#include "textflag.h"

// The barriers, by what stands in their field CRm.
#define DMB_OSHLD DMB $1 // loads before loads and stores, as far as devices
#define DMB_OSHST DMB $2 // stores before stores, as far as devices
#define DSB_ST DSB $14   // stores done before anything that follows

// Fields of a Page. An offset rotated by the size of a store is the number of a word.
#define START 0(R0)
#define WORDS 8(R0)
#define QUADS 16(R0)
#define LINES 24(R0)

// CHECK makes R0 the address of the word at offset R2 of page R0, if the page has that word and is
// not watched.
#define CHECK(shift, count, report) \
	ROR  $shift, R2, R3 \
	MOVD count, R4      \
	CMP  R4, R3         \
	BHS  report         \
	MOVD START, R0      \
	ADD  R2, R0

// func store32(p *Page, offset int, v uint32)
TEXT ·store32(SB), NOSPLIT, $0-20
	MOVD p+0(FP), R0
	MOVD offset+8(FP), R2
	MOVW v+16(FP), R1
	CHECK(2, WORDS, report)
	DMB_OSHST
	MOVW R1, (R0)
	RET

report:
	JMP ·report32(SB)

// func store64(p *Page, offset int, v uint64)
TEXT ·store64(SB), NOSPLIT, $0-24
	MOVD p+0(FP), R0
	MOVD offset+8(FP), R2
	MOVD v+16(FP), R1
	CHECK(3, QUADS, report)
	DMB_OSHST
	MOVD R1, (R0)
	RET

report:
	JMP ·report64(SB)

// func storeWC32(p *Page, offset int, v uint32)
TEXT ·storeWC32(SB), NOSPLIT, $0-20
	MOVD p+0(FP), R0
	MOVD offset+8(FP), R2
	MOVW v+16(FP), R1
	CHECK(2, WORDS, report)
	DSB_ST
	MOVW R1, (R0)
	DSB_ST
	RET

report:
	JMP ·reportWC32(SB)

// func storeWC64(p *Page, offset int, v uint64)
TEXT ·storeWC64(SB), NOSPLIT, $0-24
	MOVD p+0(FP), R0
	MOVD offset+8(FP), R2
	MOVD v+16(FP), R1
	CHECK(3, QUADS, report)
	DSB_ST
	MOVD R1, (R0)
	DSB_ST
	RET

report:
	JMP ·reportWC64(SB)

// func copy64(p *Page, offset int, from *[64]byte)
TEXT ·copy64(SB), NOSPLIT, $0-24
	MOVD p+0(FP), R0
	MOVD offset+8(FP), R2
	MOVD from+16(FP), R1
	CHECK(6, LINES, report)
	VLD4 (R1), [V0.D2, V1.D2, V2.D2, V3.D2]
	VST4 [V0.D2, V1.D2, V2.D2, V3.D2], (R0)
	RET

report:
	JMP ·report512(SB)

// func copyWC(p *Page, offset int, from slotsStart, n int)
//
// R5 is the number of lines from the offset to the end of the page. The comparison also finds no lines, and a
// part of a line.
TEXT ·copyWC(SB), NOSPLIT, $0-32
	MOVD p+0(FP), R0
	MOVD offset+8(FP), R2
	MOVD from+16(FP), R1
	MOVD n+24(FP), R6
	MOVD LINES, R5
	ROR  $6, R2, R3
	SUBS R3, R5
	BLS  report
	ROR  $6, R6
	SUB  $1, R6
	CMP  R5, R6
	BHS  report
	MOVD START, R0
	ADD  R2, R0
	DSB_ST

next:
	VLD4 (R1), [V0.D2, V1.D2, V2.D2, V3.D2]
	VST4 [V0.D2, V1.D2, V2.D2, V3.D2], (R0)
	ADD  $64, R1
	ADD  $64, R0
	SUBS $1, R6
	BPL  next
	DSB_ST
	RET

report:
	JMP ·reportLines(SB)

// func startWC(p *Page)
TEXT ·startWC(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	MOVD WORDS, R1
	CBZ  R1, report
	DSB_ST
	RET

report:
	JMP ·reportStart(SB)

// func fromDevice()
TEXT ·fromDevice(SB), NOSPLIT, $0-0
	DMB_OSHLD
	RET
