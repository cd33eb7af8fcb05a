package rxe

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// eachRequest calls f with valid and invalid requests of every opcode, except for those
// that need a device's QP.
func eachRequest(q *qp, f func(wr *verbs.SendWR)) {
	sge := verbs.SGE{Addr: 0x1122334455667788, Length: 77, LKey: 0x99}
	result, long := verbs.SGE{Length: atomicSize}, verbs.SGE{Length: maxMessage + 1}
	for op := range verbs.Opcode(len(opcodes) + 1) {
		if q.partsOf(op)&(withBind|withInv|withFlush) != 0 {
			continue
		}
		for flags := range allSendFlags + 2 {
			for _, sgl := range [][]verbs.SGE{nil, {}, {sge}, {result}, {sge, sge}, {sge, sge, sge}, {long}} {
				for _, inline := range [][]byte{nil, {}, []byte("inline"), []byte("8 bytes!"), []byte("too long!")} {
					f(&verbs.SendWR{WRID: 1 << 40, Opcode: op, Flags: flags, SGL: sgl, Inline: inline, RemoteAddr: 0xabcdef, RKey: 5, Imm: 6})
				}
			}
		}
	}
}

// TestSendChecks checks that send accepts the same requests as check, also if it does not
// call check.
func TestSendChecks(t *testing.T) {
	q := &qp{typ: verbs.QPTypeRC, parts: partsOf(verbs.QPTypeRC, 1<<63-1), maxSGE: 2, maxInline: 8}
	queued := 0
	eachRequest(q, func(wr *verbs.SendWR) {
		memory, got := sentOver(q, 0xee, wr)
		want := q.check(wr)
		checked := q.checked
		switch {
		case (got == nil) != (want == nil) || got != nil && got.Error() != want.Error():
			t.Errorf("%v, flags %d, %d SGEs, inline %q: %v, want %v", wr.Opcode, wr.Flags, len(wr.SGL), wr.Inline, got, want)
		case got == nil:
			queued++
			if e := &memory[0]; e.Dma.Length != checked.length || e.Dma.Resid != checked.length {
				t.Errorf("%v, %d SGEs, inline %q: %+v, want length %d", wr.Opcode, len(wr.SGL), wr.Inline, e.Dma, checked.length)
			}
		}
		if err := q.full(wr); want == nil && !errors.Is(err, verbs.ErrQueueFull) || want != nil && err.Error() != want.Error() {
			t.Errorf("%v, without an entry: %v", wr.Opcode, err)
		}
	})
	if queued < 100 {
		t.Errorf("%d were queued", queued)
	}
}

// TestSendLeavesNothing checks that send overwrites an entry's previous content, except for
// bytes that the kernel does not read: in the union, and after the data.
func TestSendLeavesNothing(t *testing.T) {
	q := &qp{typ: verbs.QPTypeRC, parts: partsOf(verbs.QPTypeRC, 1<<63-1), maxSGE: 2, maxInline: 8}
	eachRequest(q, func(wr *verbs.SendWR) {
		over, err := sentOver(q, 0xee, wr)
		if err != nil {
			return
		}
		again, _ := sentOver(q, 0x11, wr)
		one, two := abi.Bytes(over), abi.Bytes(again)
		end := sendWQESize + len(wr.Inline) + len(wr.SGL)*sgeSize
		for i := range one[:end] {
			if one[i] != two[i] && (i < unionStart || i >= unionEnd) {
				t.Errorf("%v, %d SGEs, inline %q: byte %d is what it was", wr.Opcode, len(wr.SGL), wr.Inline, i)
			}
		}
	})
}

// sentOver makes an entry, and the bytes after it, from memory in which each byte was
// remains.
func sentOver(q *qp, remains byte, wr *verbs.SendWR) (*[2]abi.RxeSendWqe, error) {
	memory := new([2]abi.RxeSendWqe)
	bytes := abi.Bytes(memory)
	for i := range bytes {
		bytes[i] = remains
	}
	return memory, q.send(&memory[0], wr)
}

// TestReadOnce checks that each checked field of a request is read at one place, or once in
// send and once in check, which then replaces it. A program may change the request
// meanwhile, and the kernel must not see unchecked values.
func TestReadOnce(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	reads := make(map[string]int)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "wr" {
					reads[s.Sel.Name]++
				}
			}
			return true
		})
	}
	for field, want := range map[string]int{"Opcode": 2, "Flags": 2, "SGL": 4, "Inline": 2, "InvalidateRKey": 1, "AH": 1, "Flush": 1, "Bind": 1} {
		if reads[field] != want { // receives have an SGL too
			t.Errorf("wr.%s is read at %d places, want %d", field, reads[field], want)
		}
	}
}
