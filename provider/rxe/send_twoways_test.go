package rxe

import (
	"bytes"
	"errors"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
)

// TestSendTwoWays has what send does by itself be what sendAny does, whatever the
// entry held before, and refuse what that refuses.
func TestSendTwoWays(t *testing.T) {
	q := &qp{typ: uverbs.QPTypeRC, parts: partsOf(uverbs.QPTypeRC, 0), maxSGE: 2, maxInline: 8}
	sge := uverbs.SGE{Addr: 0x1122334455667788, Length: 77, LKey: 0x99}
	long := uverbs.SGE{Length: maxMessage + 1}
	queued := 0
	for op := range uverbs.Opcode(len(opcodes) + 1) {
		if q.partsOf(op)&(withBind|withInv|withFlush) != 0 {
			continue // these need a QP of a device
		}
		for flags := range allSendFlags + 2 {
			for _, sgl := range [][]uverbs.SGE{nil, {}, {sge}, {sge, sge}, {sge, sge, sge}, {long}} {
				for _, inline := range [][]byte{nil, {}, []byte("inline"), []byte("too long!")} {
					wr := &uverbs.SendWR{WRID: 1 << 40, Opcode: op, Flags: flags, SGL: sgl, Inline: inline, RemoteAddr: 0xabcdef, RKey: 5, Imm: 6}
					one, err1 := sent(t, func(e *abi.RxeSendWqe) error { return q.send(e, wr) })
					any, err2 := sent(t, func(e *abi.RxeSendWqe) error { return q.sendAny(e, wr, sgl, inline) })
					if (err1 == nil) != (err2 == nil) || err1 != nil && err1.Error() != err2.Error() || !bytes.Equal(one, any) {
						t.Errorf("%v, flags %d, %d SGEs, inline %q: %v and %v\n%x\n%x", op, flags, len(sgl), inline, err1, err2, one, any)
					}
					if err1 == nil {
						queued++
					}
				}
			}
		}
	}
	if queued == 0 {
		t.Error("everything was refused")
	}
	if err := q.send(nil, &uverbs.SendWR{Opcode: uverbs.OpSend, SGL: []uverbs.SGE{sge}}); !errors.Is(err, uverbs.ErrQueueFull) {
		t.Errorf("without an entry: %v", err)
	}
}

// sent is an entry with what is behind it, made over another one's remains.
func sent(t *testing.T, send func(*abi.RxeSendWqe) error) ([]byte, error) {
	t.Helper()
	room := make([]abi.RxeSendWqe, 2)
	memory := abi.Bytes((*[2]abi.RxeSendWqe)(room))
	for i := range memory {
		memory[i] = 0xee
	}
	err := send(&room[0])
	return memory, err
}
