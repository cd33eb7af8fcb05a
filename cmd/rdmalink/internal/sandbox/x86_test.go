package sandbox

import (
	"encoding/hex"
	"testing"
)

// TestDecodeStore decodes instructions as an assembler encodes them.
func TestDecodeStore(t *testing.T) {
	for _, c := range []struct {
		code, text string
		want       storing
	}{
		{"488902", "mov %rax,(%rdx)", storing{length: 3, size: 8}},
		{"8902", "mov %eax,(%rdx)", storing{length: 2, size: 4}},
		{"668902", "mov %ax,(%rdx)", storing{length: 3, size: 2}},
		{"8802", "mov %al,(%rdx)", storing{length: 2, size: 1}},
		{"8822", "mov %ah,(%rdx)", storing{length: 2, size: 1, source: fromHighByte}},
		{"408832", "mov %sil,(%rdx)", storing{length: 3, size: 1, register: 6}},
		{"4d894c2408", "mov %r9,0x8(%r12)", storing{length: 5, size: 8, register: 9}},
		{"488904cb", "mov %rax,(%rbx,%rcx,8)", storing{length: 4, size: 8}},
		{"48890d11223344", "mov %rcx,0x44332211(%rip)", storing{length: 7, size: 8, register: 1}},
		{"488914cd00100000", "mov %rdx,0x1000(,%rcx,8)", storing{length: 8, size: 8, register: 2}},
		{"48899a80000000", "mov %rbx,0x80(%rdx)", storing{length: 7, size: 8, register: 3}},
		{"48894500", "mov %rax,0x0(%rbp)", storing{length: 4, size: 8}},
		{"48c7023412ffff", "movq $0xffffffffffff1234,(%rdx)", storing{length: 7, size: 8, source: fromImmediate, immediate: 0xffffffffffff1234}},
		{"c74208ffffff7f", "movl $0x7fffffff,0x8(%rdx)", storing{length: 7, size: 4, source: fromImmediate, immediate: 0x7fffffff}},
		{"66c7023412", "movw $0x1234,(%rdx)", storing{length: 5, size: 2, source: fromImmediate, immediate: 0x1234}},
		{"c60212", "movb $0x12,(%rdx)", storing{length: 3, size: 1, source: fromImmediate, immediate: 0x12}},
		{"488703", "xchg %rax,(%rbx)", storing{length: 3, size: 8, source: fromExchange}},
		{"f0488703", "lock xchg %rax,(%rbx)", storing{length: 4, size: 8, source: fromExchange}},
		{"480fc302", "movnti %rax,(%rdx)", storing{length: 4, size: 8}},
		{"0fc302", "movnti %eax,(%rdx)", storing{length: 3, size: 4}},
		{"0f1102", "movups %xmm0,(%rdx)", storing{length: 3, size: 16, source: fromVector}},
		{"440f2902", "movaps %xmm8,(%rdx)", storing{length: 4, size: 16, source: fromVector, register: 8}},
		{"66440f7f0a", "movdqa %xmm9,(%rdx)", storing{length: 5, size: 16, source: fromVector, register: 9}},
		{"f30f7f4a10", "movdqu %xmm1,0x10(%rdx)", storing{length: 5, size: 16, source: fromVector, register: 1}},
		{"660fe702", "movntdq %xmm0,(%rdx)", storing{length: 4, size: 16, source: fromVector}},
		{"660fd602", "movq %xmm0,(%rdx)", storing{length: 4, size: 8, source: fromVector}},
		{"66480f7e02", "movq %xmm0,(%rdx) as MOVD", storing{length: 5, size: 8, source: fromVector}},
		{"660f7e02", "movd %xmm0,(%rdx)", storing{length: 4, size: 4, source: fromVector}},
		{"f20f1102", "movsd %xmm0,(%rdx)", storing{length: 4, size: 8, source: fromVector}},
	} {
		code, _ := hex.DecodeString(c.code)
		if got, ok := decodeStore(append(code, 0x90, 0x90, 0x90)); !ok || got != c.want {
			t.Errorf("%s: %+v, %v", c.text, got, ok)
		}
		if got, ok := decodeStore(code[:len(code)-1]); ok {
			t.Errorf("%s without its end: %+v", c.text, got)
		}
	}
	for code, text := range map[string]string{
		"":         "nothing",
		"90":       "nop",
		"4889c2":   "mov %rax,%rdx",
		"488b02":   "mov (%rdx),%rax",
		"c5fa7f02": "vmovdqu %xmm0,(%rdx)",
		"48ab":     "stos %rax,(%rdi)",
		"480102":   "add %rax,(%rdx)",
	} {
		b, _ := hex.DecodeString(code)
		if got, ok := decodeStore(b); ok {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func FuzzDecodeStore(f *testing.F) {
	f.Add([]byte{0x48, 0x89, 0x02})
	f.Add([]byte{0x66, 0x0f, 0x7e})
	f.Fuzz(func(t *testing.T, code []byte) {
		s, ok := decodeStore(code[:min(len(code), longestInstruction)])
		if ok && (s.length > longestInstruction || s.size < 1 || s.size > 16 || s.register > 15) {
			t.Errorf("%x: %+v", code, s)
		}
	})
}
