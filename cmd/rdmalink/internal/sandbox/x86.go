package sandbox

import "encoding/binary"

// storing is an x86-64 instruction that stores to memory.
type storing struct {
	length    int // of the instruction
	size      int // bytes that are stored
	source    source
	register  int    // of the source's kind
	immediate uint64 // with fromImmediate
}

// source is the kind of operand that an instruction stores.
type source uint8

const (
	fromRegister  source = iota
	fromHighByte         // the second byte of RAX, RCX, RDX or RBX
	fromVector           // XMM
	fromImmediate        // the instruction itself
	fromExchange         // a register, which gets the old value
)

// opcode is how an instruction stores.
type opcode struct {
	source source
	size   int // 0: that of the operands
}

// The instructions by opcode, with 0x0f in front of those of two bytes, and in front of that
// the prefix that belongs to them.
var storingOpcodes = map[uint32]opcode{
	0x88: {fromRegister, 1}, 0x89: {fromRegister, 0}, // MOV
	0xc6: {fromImmediate, 1}, 0xc7: {fromImmediate, 0},
	0x86: {fromExchange, 1}, 0x87: {fromExchange, 0}, // XCHG
	0x0fc3: {fromRegister, 0},                            // MOVNTI
	0x0f11: {fromVector, 16}, 0x660f11: {fromVector, 16}, // MOVUPS, MOVUPD
	0xf30f11: {fromVector, 4}, 0xf20f11: {fromVector, 8}, // MOVSS, MOVSD
	0x0f29: {fromVector, 16}, 0x660f29: {fromVector, 16}, // MOVAPS, MOVAPD
	0x0f2b: {fromVector, 16}, 0x660f2b: {fromVector, 16}, // MOVNTPS, MOVNTPD
	0x660f7f: {fromVector, 16}, 0xf30f7f: {fromVector, 16}, // MOVDQA, MOVDQU
	0x660fe7: {fromVector, 16},                           // MOVNTDQ
	0x660fd6: {fromVector, 8}, 0x660f7e: {fromVector, 0}, // MOVQ, MOVD
	0x0f13: {fromVector, 8}, 0x660f13: {fromVector, 8}, // MOVLPS, MOVLPD
}

// longestInstruction is in bytes.
const longestInstruction = 15

// decodeStore reads an instruction of which it is known that it faulted. It knows those that
// compilers make of an assignment to memory of one to 16 bytes.
func decodeStore(code []byte) (s storing, ok bool) {
	d := decoder{code: code}
	d.prefixes()
	op, ok := storingOpcodes[d.opcode()]
	if !ok {
		return s, false
	}
	s = storing{size: op.size, source: op.source}
	if s.size == 0 {
		s.size = d.operand()
	}
	modrm := d.byte()
	if modrm>>6 == 3 {
		return s, false // no memory
	}
	s.register = int(modrm>>3&7) | int(d.rex>>2&1)<<3
	d.at += displacement(modrm, d.peek())
	switch {
	case op.source == fromImmediate:
		s.immediate = d.immediate(min(s.size, 4))
	case op.size == 1 && d.rex == 0 && s.register >= 4 && op.source == fromRegister:
		s.source, s.register = fromHighByte, s.register-4
	}
	s.length = d.at
	return s, d.at <= len(code)
}

// decoder reads the bytes of an instruction, followed by zeros.
type decoder struct {
	code   []byte
	at     int
	rex    byte
	prefix byte // 0x66, 0xf2 or 0xf3: the last one
	half   bool // operands of 16 bits
}

func (d *decoder) peek() byte {
	if d.at < len(d.code) {
		return d.code[d.at]
	}
	return 0
}

func (d *decoder) byte() byte {
	b := d.peek()
	d.at++
	return b
}

func (d *decoder) prefixes() {
	for {
		switch b := d.peek(); b {
		case 0x66:
			d.half, d.prefix = true, b
		case 0xf2, 0xf3:
			d.prefix = b
		case 0xf0, 0x67, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65: // LOCK, the size of addresses, segments
		default:
			if b&0xf0 == 0x40 {
				d.rex = b
				d.at++
			}
			return
		}
		d.at++
	}
}

// opcode is the key of storingOpcodes.
func (d *decoder) opcode() uint32 {
	op := uint32(d.byte())
	if op == 0x0f {
		op = uint32(d.prefix)<<16 | 0x0f00 | uint32(d.byte())
	}
	return op
}

// operand is the size of a general register's operand.
func (d *decoder) operand() int {
	switch {
	case d.rex&8 != 0:
		return 8
	case d.half && d.prefix == 0x66 && d.code[d.at-2] != 0x0f:
		return 2
	}
	return 4
}

// immediate reads a number, which is extended by its sign.
func (d *decoder) immediate(size int) uint64 {
	var b [8]byte
	for i := range size {
		b[i] = d.byte()
	}
	v := binary.LittleEndian.Uint64(b[:])
	return uint64(int64(v<<(64-8*size)) >> (64 - 8*size))
}

// displacement is how many bytes of an address follow a ModRM byte.
func displacement(modrm, sib byte) (n int) {
	mod, rm := modrm>>6, modrm&7
	if rm == 4 {
		n, rm = 1, sib&7
	}
	switch {
	case mod == 1:
		n++
	case mod == 2, rm == 5: // the latter with mod 0
		n += 4
	}
	return n
}
