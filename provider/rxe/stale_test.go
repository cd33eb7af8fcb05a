package rxe

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// newQueue is a queue of four entries in which every byte was used before.
func newQueue(t *testing.T, log2 uint32) queue {
	t.Helper()
	memory := bytes.Repeat([]byte{0xff}, queueData+4<<log2)
	for offset, v := range map[int]uint32{log2ElemSize: log2, indexMask: 3, producerIndex: 0, consumerIndex: 0} {
		binary.NativeEndian.PutUint32(memory[offset:], v)
	}
	region := providertest.Must[*mmap.Region](t)(mmap.Wrap(memory))
	t.Cleanup(func() {
		if err := region.Close(); err != nil {
			t.Error(err)
		}
	})
	return providertest.Must[queue](t)(readHeader(region))
}

// over returns an entry that send makes in memory that is filled with b, without the union,
// of which the kernel reads only the opcode's part.
func over(t *testing.T, b byte, send func(*abi.RxeSendWqe) error) abi.RxeSendWqe {
	t.Helper()
	room := new([2]abi.RxeSendWqe) // room for an SGE after the first
	memory := abi.Bytes(room)
	for i := range memory {
		memory[i] = b
	}
	if err := send(&room[0]); err != nil {
		t.Fatal(err)
	}
	clear(memory[unionStart:unionEnd])
	return room[0]
}

// The kernel's notes in an entry from its last use are overwritten by the next request, on
// both paths of send.
func TestSendOverOldEntry(t *testing.T) {
	q := &qp{typ: verbs.QPTypeRC, parts: partsOf(verbs.QPTypeRC, 0), maxSGE: 2, maxInline: 8}
	sge := []verbs.SGE{{Addr: 1, Length: 8, LKey: 2}}
	for _, wr := range []verbs.SendWR{
		{Opcode: verbs.OpSend, SGL: sge}, {Opcode: verbs.OpSend, Inline: []byte("inline")},
		{Opcode: verbs.OpSendImm, SGL: sge, Imm: 3}, {Opcode: verbs.OpRDMAWrite, SGL: sge, RemoteAddr: 4, RKey: 5},
		{Opcode: verbs.OpRDMARead, SGL: sge, RemoteAddr: 4, RKey: 5}, {Opcode: verbs.OpFetchAdd, SGL: sge, RemoteAddr: 8, RKey: 5},
	} {
		send := func(e *abi.RxeSendWqe) error { return q.send(e, &wr) }
		fresh, used := over(t, 0, send), over(t, 0xff, send)
		if fresh != used {
			t.Errorf("%v:\n%+v over zeroes,\n%+v over another", wr.Opcode, fresh, used)
		}
		if d := used.Dma; used.State != 0 || used.HasRdAtomic != 0 || d.CurSge != 0 || d.SgeOffset != 0 || d.Resid != d.Length {
			t.Errorf("%v: %+v", wr.Opcode, used)
		}
	}
}

func TestRecvOverOldEntry(t *testing.T) {
	q := providertest.Must[*recvQueue](t)(newRecvQueue(newQueue(t, 7), 2))
	sge := verbs.SGE{Addr: 1, Length: 8, LKey: 2}
	for n, sgl := range [][]verbs.SGE{nil, {sge}, {sge, sge}} {
		slots, _, _ := q.ring.Room(1)
		if n, err := q.post([]verbs.RecvWR{{WRID: 3, SGL: sgl}}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		length := uint32(8 * n)
		want := abi.RxeRecvWqe{WrId: 3, Dma: abi.RxeDmaInfo{Length: length, Resid: length, NumSge: uint32(n)}}
		if got := *slots.At(0); got != want {
			t.Errorf("%d SGEs: %+v, want %+v", n, got, want)
		}
	}
}

// Kernels newer than 6.1 look at the slot after the last send, see [qp.drain].
func TestDrainClearsSlot(t *testing.T) {
	memory := newQueue(t, 8)
	q := &qp{sq: providertest.Must[*mmap.IndexedProducer[abi.RxeSendWqe]](t)(mmap.NewIndexedProducer[abi.RxeSendWqe](memory.region, memory.layout))}
	q.sq.Publish(2)
	slots, _, _ := q.sq.Room(0)
	q.drain()
	if e := slots.At(0); e.State != 0 || e.Status == 0 {
		t.Errorf("state %#x, status %#x", e.State, e.Status)
	}
	if e := slots.At(-1); e.State == 0 {
		t.Error("a send that is queued was changed")
	}
}
