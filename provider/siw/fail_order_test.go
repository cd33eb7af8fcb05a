package siw

import (
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// When the QP is moved to ERR, the kernel flushes the entries that it has. Flush takes back
// only the rest.
func TestFlushAfterKernel(t *testing.T) {
	region := must[*mmap.Region](t)(mmap.Wrap(make([]byte, 4*sqeSize)))
	defer region.Close()
	q := &qp{connected: true, maxSGE: 1, flags: abi.SIW_WQE_VALID, doorbell: func() error { return nil },
		sq: must[*mmap.FlagProducer[abi.SiwSqe]](t)(mmap.NewFlagProducer[abi.SiwSqe](region, 4, ownerWord))}
	if n, err := q.PostSend([]verbs.SendWR{{WRID: 1, Opcode: verbs.OpSend}, {WRID: 2, Opcode: verbs.OpSend}}); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	kernel := must[*mmap.FlagConsumer[abi.SiwSqe]](t)(mmap.NewFlagConsumer[abi.SiwSqe](region, 4, ownerWord))
	e := kernel.At(0)
	if kernel.Word(e) == 0 || e.Id != 1 {
		t.Error("the kernel finds nothing to flush")
	}
	kernel.Return(e)
	if f := q.Flush(); len(f.Send) != 1 || f.Send[0].WRID != 2 {
		t.Errorf("taken back %+v", f.Send)
	}
}
