//go:build vm

package test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// pattern fills b with bytes that depend on their place and on a seed.
func pattern(b []byte, seed byte) []byte {
	for i := range b {
		b[i] = seed + byte(i) + byte(i>>8)
	}
	return b
}

// TestOperations has each operation move data of several sizes.
func TestOperations(t *testing.T) {
	fabric(t)
	noLeak(t)
	many := setup{recvs: 1}
	many.cfg.QP.Cap = verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 6, MaxRecvSGE: 6}
	c, s := connect(t, many, many)
	ours, theirs := c.mr.Bytes(), s.mr.Bytes()
	sizes := []int{0, 1, 7, 80, 1024}
	for _, size := range sizes {
		t.Run(fmt.Sprintf("SEND %d", size), func(t *testing.T) {
			want := pattern(ours[sendFrom:sendFrom+size], byte(size))
			c.post(verbs.SendWR{WRID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.mr.SGE(sendFrom, size)}})
			c.sent("2 SEND success")
			s.got(fmt.Sprintf("1000 RECV success %d", size))
			if !bytes.Equal(theirs[:size], want) {
				t.Error("the data changed")
			}
			s.postRecv(s.recv(0))
		})
		t.Run(fmt.Sprintf("WRITE and READ %d", size), func(t *testing.T) {
			want := pattern(ours[sendFrom:sendFrom+size], byte(size+1))
			wr := verbs.SendWR{WRID: 3, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.mr.SGE(sendFrom, size)}}
			c.post(c.peer(wr))
			c.sent("3 RDMA_WRITE success")
			wr = verbs.SendWR{WRID: 4, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.mr.SGE(0, size)}}
			c.post(c.peer(wr)) // it waits behind the write, at the responder as well
			c.sent("4 RDMA_READ success")
			if !bytes.Equal(theirs[:size], want) || !bytes.Equal(ours[:size], want) {
				t.Error("the data changed")
			}
		})
	}
	t.Run("SEND gathers, receive scatters", func(t *testing.T) {
		c.post(verbs.SendWR{Opcode: verbs.OpSend}) // takes the receive of one SGE
		s.got("1000 RECV success 0")
		var gather, scatter []verbs.SGE
		var want []byte
		for i := range 6 {
			want = append(want, pattern(ours[sendFrom+100*i:][:10*(i+1)], byte(i))...)
			gather = append(gather, c.mr.SGE(sendFrom+100*i, 10*(i+1)))
			scatter = append(scatter, s.mr.SGE(recvSize*i, 35))
		}
		s.postRecv(verbs.RecvWR{WRID: 1006, SGL: scatter})
		c.post(verbs.SendWR{WRID: 6, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: gather})
		c.sent("6 SEND success")
		s.got("1006 RECV success 210")
		var got []byte
		for i := range 6 {
			got = append(got, theirs[recvSize*i:][:35]...)
		}
		if !bytes.Equal(got, want) {
			t.Error("the data changed")
		}
	})
}

// TestInline: the data is taken from Inline before PostSend returns.
func TestInline(t *testing.T) {
	fabric(t)
	noLeak(t)
	c, s := connect(t, setup{}, setup{recvs: 4})
	for i, size := range []int{0, 1, 79, 80} {
		data := pattern(make([]byte, size), byte(size))
		write := verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, Inline: data}
		write = c.peer(write)
		write.RemoteAddr += sendFrom
		c.post(write, verbs.SendWR{WRID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: data})
		want := bytes.Clone(data)
		clear(data)
		c.sent("1 RDMA_WRITE success")
		c.sent("2 SEND success")
		s.got(fmt.Sprintf("%d RECV success %d", 1000+i, size))
		if !bytes.Equal(s.mr.Bytes()[i*recvSize:][:size], want) || !bytes.Equal(s.mr.Bytes()[sendFrom:][:size], want) {
			t.Errorf("%d bytes: the data changed", size)
		}
	}
}

// TestUnsignaled: only requests that ask for a completion get one, and the queue goes
// round many times.
func TestUnsignaled(t *testing.T) {
	fabric(t)
	noLeak(t)
	c, s := connect(t, setup{}, setup{})
	var batch [8]verbs.SendWR
	const rounds = 200
	for round := range rounds {
		for i := range batch {
			at := (round*len(batch) + i) * 8
			pattern(c.mr.Bytes()[at:at+8], byte(round))
			batch[i] = c.peer(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{c.mr.SGE(at, 8)}})
			batch[i].RemoteAddr += uint64(at)
		}
		last := &batch[len(batch)-1]
		last.WRID, last.Flags = uint64(round), verbs.SendSignaled
		c.post(batch[:]...)
		c.sent(fmt.Sprintf("%d RDMA_WRITE success", round))
	}
	c.post(c.peer(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.mr.SGE(sendFrom, 8)}}))
	c.sent("1 RDMA_READ success") // all writes have arrived
	n := rounds * len(batch) * 8
	if !bytes.Equal(c.mr.Bytes()[:n], s.mr.Bytes()[:n]) {
		t.Error("the data changed")
	}
	if n, err := c.SendCQ().Poll(make([]verbs.WC, 1)); n != 0 || err != nil {
		t.Errorf("%d completions too many, %v", n, err)
	}
}

// TestFence: a fenced send waits for the read before it, whose data it sends.
func TestFence(t *testing.T) {
	fabric(t)
	noLeak(t)
	const size = 256 << 10
	big := setup{size: size + recvSize}
	c, s := connect(t, big, big)
	want := bytes.Clone(pattern(s.mr.Bytes()[:size], 3))
	s.postRecv(verbs.RecvWR{WRID: 5, SGL: []verbs.SGE{s.mr.SGE(size, recvSize)}})
	c.post(c.peer(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{c.mr.SGE(0, size)}}),
		verbs.SendWR{WRID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled | verbs.SendFence, SGL: []verbs.SGE{c.mr.SGE(size-recvSize, recvSize)}})
	c.sent("2 SEND success")
	s.got(fmt.Sprintf("5 RECV success %d", recvSize))
	if !bytes.Equal(s.mr.Bytes()[size:], want[size-recvSize:]) {
		t.Error("the send overtook the read")
	}
}

// TestReadNeedsNoAccess: siw serves a READ from memory that was registered
// without AccessRemoteRead; the key is all it asks for.
func TestReadNeedsNoAccess(t *testing.T) {
	fabric(t)
	noLeak(t)
	c, s := connect(t, setup{}, setup{access: verbs.AccessLocalWrite})
	pattern(s.mr.Bytes()[:64], 1)
	c.post(c.peer(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.mr.SGE(0, 64)}}))
	c.sent("1 RDMA_READ success")
	if !bytes.Equal(s.mr.Bytes()[:64], c.mr.Bytes()[:64]) {
		t.Error("the data changed")
	}
}
