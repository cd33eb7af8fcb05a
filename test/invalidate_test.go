//go:build vm

package test

import (
	"bytes"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// TestSendWithInvalidate: the key is dead once the SEND has arrived, and using
// it ends the connection.
func TestSendWithInvalidate(t *testing.T) {
	fabric(t)
	noLeak(t)
	c, s := connect(t, setup{}, setup{recvs: 2})
	events := watch(t, s)
	lent := must(s.PD().AllocMR(4096, allAccess, nil))(t)
	closeLater(t, lent)
	write := verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled,
		SGL: []verbs.SGE{c.mr.SGE(0, 8)}, RemoteAddr: lent.Addr(), RKey: lent.RKey()}
	pattern(c.mr.Bytes()[:8], 1)
	c.post(write)
	c.sent("1 RDMA_WRITE success")
	c.post(verbs.SendWR{WRID: 2, Opcode: verbs.OpSendWithInv, Flags: verbs.SendSignaled,
		SGL: []verbs.SGE{c.mr.SGE(0, 8)}, InvalidateRKey: lent.RKey()})
	c.sent("2 SEND success")
	s.got("1000 RECV success 8")
	if !bytes.Equal(lent.Bytes()[:8], c.mr.Bytes()[:8]) {
		t.Error("the data changed")
	}
	c.post(write)
	c.sent("1 RDMA_WRITE success") // as far as the initiator knows
	c.ended()
	s.ended()
	s.got("1001 RECV work request flushed")
	if names := events.of(s, ", QP"); len(names) != 1 || names[0] != "QP access error" {
		t.Errorf("events %q", names)
	}
}

// TestReadWithInvalidate: siw reads, but ends the local key for the kernel's own
// users only.
func TestReadWithInvalidate(t *testing.T) {
	fabric(t)
	noLeak(t)
	c, s := connect(t, setup{}, setup{})
	for round := range 2 {
		pattern(s.mr.Bytes()[:64], byte(9*round))
		c.post(c.peer(verbs.SendWR{WRID: 1, Opcode: verbs.OpReadWithInv, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.mr.SGE(0, 64)}}))
		c.sent("1 RDMA_READ success")
		if !bytes.Equal(c.mr.Bytes()[:64], s.mr.Bytes()[:64]) {
			t.Error("the data changed")
		}
	}
}
