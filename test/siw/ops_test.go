//go:build vm

package siw

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/verbs"
)

// TestSendWithInvalidate checks that the key is dead once the SEND has arrived, and using it ends the connection.
func TestSendWithInvalidate(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	c, s := connect(t, kit.Setup{}, kit.Setup{Recvs: 2})
	events := watch(t, s)
	lent := kit.Must(s.PD().AllocMR(4096, kit.AllAccess, nil))(t)
	kit.CloseLater(t, lent)
	write := verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled,
		SGL: []verbs.SGE{c.MR.SGE(0, 8)}, RemoteAddr: lent.Addr(), RKey: lent.RKey()}
	kit.Pattern(c.MR.Bytes()[:8], 1)
	c.Post(write)
	c.Sent("1 RDMA_WRITE success")
	c.Post(verbs.SendWR{WRID: 2, Opcode: verbs.OpSendWithInv, Flags: verbs.SendSignaled,
		SGL: []verbs.SGE{c.MR.SGE(0, 8)}, InvalidateRKey: lent.RKey()})
	c.Sent("2 SEND success")
	s.Got("1000 RECV success 8")
	if !bytes.Equal(lent.Bytes()[:8], c.MR.Bytes()[:8]) {
		t.Error("the data changed")
	}
	c.Post(write)
	c.Sent("1 RDMA_WRITE success") // as far as the initiator knows
	c.Ended()
	s.Ended()
	s.Got("1001 RECV work request flushed")
	if names := events.of(s, ", QP"); len(names) != 1 || names[0] != "QP access error" {
		t.Errorf("events %q", names)
	}
}

// TestReadWithInvalidate checks that siw reads, but ends the local key for the kernel's own users only.
func TestReadWithInvalidate(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	c, s := connect(t, kit.Setup{}, kit.Setup{})
	for round := range 2 {
		kit.Pattern(s.MR.Bytes()[:64], byte(9*round))
		c.Post(c.AtPeer(verbs.SendWR{WRID: 1, Opcode: verbs.OpReadWithInv, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.MR.SGE(0, 64)}}))
		c.Sent("1 RDMA_READ success")
		if !bytes.Equal(c.MR.Bytes()[:64], s.MR.Bytes()[:64]) {
			t.Error("the data changed")
		}
	}
}

// TestOperations has each operation move data of several sizes.
func TestOperations(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	many := kit.Setup{Recvs: 1}
	many.Cfg.QP.Cap = verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 6, MaxRecvSGE: 6}
	c, s := connect(t, many, many)
	ours, theirs := c.MR.Bytes(), s.MR.Bytes()
	sizes := []int{0, 1, 7, 80, 1024}
	for _, size := range sizes {
		t.Run(fmt.Sprintf("SEND %d", size), func(t *testing.T) {
			want := kit.Pattern(ours[kit.SendFrom:kit.SendFrom+size], byte(size))
			c.Post(verbs.SendWR{WRID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.MR.SGE(kit.SendFrom, size)}})
			c.Sent("2 SEND success")
			s.Got(fmt.Sprintf("1000 RECV success %d", size))
			if !bytes.Equal(theirs[:size], want) {
				t.Error("the data changed")
			}
			postRecv(s, s.Recv(0))
		})
		t.Run(fmt.Sprintf("WRITE and READ %d", size), func(t *testing.T) {
			want := kit.Pattern(ours[kit.SendFrom:kit.SendFrom+size], byte(size+1))
			wr := verbs.SendWR{WRID: 3, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.MR.SGE(kit.SendFrom, size)}}
			c.Post(c.AtPeer(wr))
			c.Sent("3 RDMA_WRITE success")
			wr = verbs.SendWR{WRID: 4, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.MR.SGE(0, size)}}
			c.Post(c.AtPeer(wr)) // it waits behind the write, at the responder as well
			c.Sent("4 RDMA_READ success")
			if !bytes.Equal(theirs[:size], want) || !bytes.Equal(ours[:size], want) {
				t.Error("the data changed")
			}
		})
	}
	t.Run("SEND gathers, receive scatters", func(t *testing.T) {
		c.Post(verbs.SendWR{Opcode: verbs.OpSend}) // takes the receive of one SGE
		s.Got("1000 RECV success 0")
		var gather, scatter []verbs.SGE
		var want []byte
		for i := range 6 {
			want = append(want, kit.Pattern(ours[kit.SendFrom+100*i:][:10*(i+1)], byte(i))...)
			gather = append(gather, c.MR.SGE(kit.SendFrom+100*i, 10*(i+1)))
			scatter = append(scatter, s.MR.SGE(kit.RecvSize*i, 35))
		}
		postRecv(s, verbs.RecvWR{WRID: 1006, SGL: scatter})
		c.Post(verbs.SendWR{WRID: 6, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: gather})
		c.Sent("6 SEND success")
		s.Got("1006 RECV success 210")
		var got []byte
		for i := range 6 {
			got = append(got, theirs[kit.RecvSize*i:][:35]...)
		}
		if !bytes.Equal(got, want) {
			t.Error("the data changed")
		}
	})
}

// TestInline checks that the data is taken from Inline before PostSend returns.
func TestInline(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	c, s := connect(t, kit.Setup{}, kit.Setup{Recvs: 4})
	for i, size := range []int{0, 1, 79, 80} {
		data := kit.Pattern(make([]byte, size), byte(size))
		write := verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, Inline: data}
		write = c.AtPeer(write)
		write.RemoteAddr += kit.SendFrom
		c.Post(write, verbs.SendWR{WRID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: data})
		want := bytes.Clone(data)
		clear(data)
		c.Sent("1 RDMA_WRITE success")
		c.Sent("2 SEND success")
		s.Got(fmt.Sprintf("%d RECV success %d", 1000+i, size))
		if !bytes.Equal(s.MR.Bytes()[i*kit.RecvSize:][:size], want) || !bytes.Equal(s.MR.Bytes()[kit.SendFrom:][:size], want) {
			t.Errorf("%d bytes: the data changed", size)
		}
	}
}

// TestUnsignaled checks that only requests that ask for a completion get one, and the queue goes round many times.
func TestUnsignaled(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	c, s := connect(t, kit.Setup{}, kit.Setup{})
	var batch [8]verbs.SendWR
	const rounds = 200
	for round := range rounds {
		for i := range batch {
			at := (round*len(batch) + i) * 8
			kit.Pattern(c.MR.Bytes()[at:at+8], byte(round))
			batch[i] = c.AtPeer(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{c.MR.SGE(at, 8)}})
			batch[i].RemoteAddr += uint64(at)
		}
		last := &batch[len(batch)-1]
		last.WRID, last.Flags = uint64(round), verbs.SendSignaled
		c.Post(batch[:]...)
		c.Sent(fmt.Sprintf("%d RDMA_WRITE success", round))
	}
	c.Post(c.AtPeer(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.MR.SGE(kit.SendFrom, 8)}}))
	c.Sent("1 RDMA_READ success") // all writes have arrived
	n := rounds * len(batch) * 8
	if !bytes.Equal(c.MR.Bytes()[:n], s.MR.Bytes()[:n]) {
		t.Error("the data changed")
	}
	if n, err := c.SendCQ().Poll(make([]verbs.WC, 1)); n != 0 || err != nil {
		t.Errorf("%d completions too many, %v", n, err)
	}
}

// TestFence checks that a fenced send waits for the read before it, whose data it sends.
func TestFence(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	const size = 256 << 10
	big := kit.Setup{Size: size + kit.RecvSize}
	c, s := connect(t, big, big)
	want := bytes.Clone(kit.Pattern(s.MR.Bytes()[:size], 3))
	postRecv(s, verbs.RecvWR{WRID: 5, SGL: []verbs.SGE{s.MR.SGE(size, kit.RecvSize)}})
	c.Post(c.AtPeer(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{c.MR.SGE(0, size)}}),
		verbs.SendWR{WRID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled | verbs.SendFence, SGL: []verbs.SGE{c.MR.SGE(size-kit.RecvSize, kit.RecvSize)}})
	c.Sent("2 SEND success")
	s.Got(fmt.Sprintf("5 RECV success %d", kit.RecvSize))
	if !bytes.Equal(s.MR.Bytes()[size:], want[size-kit.RecvSize:]) {
		t.Error("the send overtook the read")
	}
}

// TestReadNeedsNoAccess checks that siw serves a READ from memory that was registered without
// AccessRemoteRead; the key is all it asks for.
func TestReadNeedsNoAccess(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	c, s := connect(t, kit.Setup{}, kit.Setup{Access: verbs.AccessLocalWrite})
	kit.Pattern(s.MR.Bytes()[:64], 1)
	c.Post(c.AtPeer(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.MR.SGE(0, 64)}}))
	c.Sent("1 RDMA_READ success")
	if !bytes.Equal(s.MR.Bytes()[:64], c.MR.Bytes()[:64]) {
		t.Error("the data changed")
	}
}
