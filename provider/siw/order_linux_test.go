//go:build !race

// The race detector can not go on after a fault on memory that it looks at.

package siw

import (
	"os"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/uverbs/driver"
)

// A kernel refills an entry as soon as it is given back, so it has to be copied before.
// Here giving it back is a fault, because the memory is read-only, and the copy has to
// be there by then.
func TestCopiedBeforeReturn(t *testing.T) {
	fd := must[int](t)(unix.MemfdCreate("cq", unix.MFD_CLOEXEC))
	defer unix.Close(fd)
	memory := make([]byte, os.Getpagesize())
	copy(memory, abi.Bytes(&abi.SiwCqe{Id: 7, Flags: abi.SIW_WQE_VALID, Opcode: abi.SIW_OP_RECEIVE, Bytes: 8, QpId: 9}))
	if _, err := unix.Write(fd, memory); err != nil {
		t.Fatal(err)
	}
	region := must[*mmap.Region](t)(mmap.Map(fd, 0, len(memory), mmap.ProtRead))
	defer region.Close()
	q := must[*cq](t)(newCQ(region, 4))
	wcs := make([]uverbs.WC, 1)
	func() {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() {
			if recover() == nil {
				t.Error("nothing was given back")
			}
		}()
		_, _, _ = q.Poll(wcs)
	}()
	if want := (uverbs.WC{WRID: 7, Opcode: uverbs.WCRecv, ByteLen: 8, QPN: 9}); wcs[0] != want {
		t.Errorf("given back before it was copied: %+v", wcs[0])
	}
}

// The kernel flushes what it still has when the QP is moved to the error state. What it
// flushed is not taken back from the rings as well.
func TestFailMovesFirst(t *testing.T) {
	region := must[*mmap.Region](t)(mmap.Wrap(make([]byte, 4*sqeSize)))
	defer region.Close()
	q := &qp{connected: true, maxSGE: 1, flags: abi.SIW_WQE_VALID, doorbell: func() error { return nil },
		sq: must[*mmap.FlagProducer[abi.SiwSqe]](t)(mmap.NewFlagProducer[abi.SiwSqe](region, 4, ownerWord))}
	if n, err := q.PostSend([]driver.SendWR{{WRID: 1, Opcode: driver.OpSend}, {WRID: 2, Opcode: driver.OpSend}}); n != 2 || err != nil {
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
