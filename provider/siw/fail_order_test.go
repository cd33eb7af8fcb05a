package siw

import (
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// The kernel flushes what it still has when the QP is moved to the error state. What it
// flushed is not taken back from the rings as well.
func TestFailMovesFirst(t *testing.T) {
	region := must[*mmap.Region](t)(mmap.Wrap(make([]byte, 4*sqeSize)))
	defer region.Close()
	q := &qp{connected: true, maxSGE: 1, flags: abi.SIW_WQE_VALID, doorbell: func() error { return nil },
		sq: must[*mmap.FlagProducer[abi.SiwSqe]](t)(mmap.NewFlagProducer[abi.SiwSqe](region, 4, ownerWord))}
	if n, err := q.PostSend([]verbs.SendWR{{WRID: 1, Opcode: verbs.OpSend}, {WRID: 2, Opcode: verbs.OpSend}}); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	moved := 0
	kernel := must[*mmap.FlagConsumer[abi.SiwSqe]](t)(mmap.NewFlagConsumer[abi.SiwSqe](region, 4, ownerWord))
	f := q.Fail(func() error {
		moved++
		e := kernel.At(0)
		if kernel.Word(e) == 0 || e.Id != 1 {
			t.Error("the kernel finds nothing to flush")
		}
		kernel.Return(e)
		return nil
	})
	if len(f.Send) != 1 || f.Send[0].WRID != 2 || moved != 1 {
		t.Errorf("moved %d times, taken back %+v", moved, f.Send)
	}
}
