#include "textflag.h"

// amd64 keeps stores in their order, but for those to write-combining memory,
// around which SFENCE stands.

// Fields of a Page. An offset rotated by the size of a store is the number of a word.
#define START 0(AX)
#define WORDS 8(AX)
#define QUADS 16(AX)
#define LINES 24(AX)

// CHECK makes CX the address of the word at offset CX of page AX, if the page has that word and is
// not watched.
#define CHECK(shift, count, report) \
	MOVQ CX, BX       \
	RORQ $shift, BX   \
	CMPQ BX, count    \
	JCC  report       \
	ADDQ START, CX

// func store32(p *Page, offset int, v uint32)
TEXT ·store32(SB), NOSPLIT, $0-20
	MOVQ p+0(FP), AX
	MOVQ offset+8(FP), CX
	MOVL v+16(FP), DX
	CHECK(2, WORDS, report)
	MOVL DX, (CX)
	RET

report:
	JMP ·report32(SB)

// func store64(p *Page, offset int, v uint64)
TEXT ·store64(SB), NOSPLIT, $0-24
	MOVQ p+0(FP), AX
	MOVQ offset+8(FP), CX
	MOVQ v+16(FP), DX
	CHECK(3, QUADS, report)
	MOVQ DX, (CX)
	RET

report:
	JMP ·report64(SB)

// func storeWC32(p *Page, offset int, v uint32)
TEXT ·storeWC32(SB), NOSPLIT, $0-20
	MOVQ p+0(FP), AX
	MOVQ offset+8(FP), CX
	MOVL v+16(FP), DX
	CHECK(2, WORDS, report)
	SFENCE
	MOVL DX, (CX)
	SFENCE
	RET

report:
	JMP ·reportWC32(SB)

// func storeWC64(p *Page, offset int, v uint64)
TEXT ·storeWC64(SB), NOSPLIT, $0-24
	MOVQ p+0(FP), AX
	MOVQ offset+8(FP), CX
	MOVQ v+16(FP), DX
	CHECK(3, QUADS, report)
	SFENCE
	MOVQ DX, (CX)
	SFENCE
	RET

report:
	JMP ·reportWC64(SB)

// func copy64(p *Page, offset int, from *[64]byte)
TEXT ·copy64(SB), NOSPLIT, $0-24
	MOVQ p+0(FP), AX
	MOVQ offset+8(FP), CX
	MOVQ from+16(FP), DX
	CHECK(6, LINES, report)
	MOVOU (DX), X0
	MOVOU 16(DX), X1
	MOVOU 32(DX), X2
	MOVOU 48(DX), X3
	MOVOU X0, (CX)
	MOVOU X1, 16(CX)
	MOVOU X2, 32(CX)
	MOVOU X3, 48(CX)
	RET

report:
	JMP ·report512(SB)

// func copyWC(p *Page, offset int, from slotsStart, n int)
//
// SI is the number of lines from the offset to the end of the page. The comparison also finds no lines, and a
// part of a line.
TEXT ·copyWC(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), AX
	MOVQ offset+8(FP), CX
	MOVQ from+16(FP), DX
	MOVQ n+24(FP), DI
	MOVQ LINES, SI
	MOVQ CX, BX
	RORQ $6, BX
	SUBQ BX, SI
	JLS  report
	MOVQ DI, BX
	RORQ $6, BX
	DECQ BX
	CMPQ BX, SI
	JCC  report
	ADDQ START, CX
	SFENCE

next:
	MOVOU (DX), X0
	MOVOU 16(DX), X1
	MOVOU 32(DX), X2
	MOVOU 48(DX), X3
	MOVOU X0, (CX)
	MOVOU X1, 16(CX)
	MOVOU X2, 32(CX)
	MOVOU X3, 48(CX)
	ADDQ  $64, DX
	ADDQ  $64, CX
	DECQ  BX
	JPL   next
	SFENCE
	RET

report:
	JMP ·reportLines(SB)

// func startWC(p *Page)
TEXT ·startWC(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	CMPQ WORDS, $0
	JEQ  report
	SFENCE
	RET

report:
	JMP ·reportStart(SB)

// func fromDevice()
TEXT ·fromDevice(SB), NOSPLIT, $0-0
	LFENCE
	RET
