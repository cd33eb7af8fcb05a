#include "textflag.h"

// amd64 keeps stores in their order, but for those to write-combining memory,
// around which SFENCE stands.

// Fields of a Page. An offset rotated by the size of a store is the number of a word.
#define START 0(AX)
#define WORDS 8(AX)
#define QUADS 16(AX)

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
