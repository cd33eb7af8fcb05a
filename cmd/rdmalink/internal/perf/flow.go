package perf

import (
	"fmt"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// flow is one QP and how far it has got with the messages of a size.
type flow struct {
	index  int
	qp     *uverbs.QP   // nil where only a target is
	target *uverbs.QP   // of DC: the DCT for the peer's messages, or nil
	srq    *uverbs.SRQ  // of target
	close  func() error // of its connection; nil without one
	peer   perftest.Endpoint
	to     datagramPeer
	stream int // of the next message, with streams

	sends []verbs.SendWR // posted together
	recvs []verbs.RecvWR
	place []place // of sends: SGE and data

	step, slots   int
	slot          int // of the next message, if they are sent one by one
	silent        int // sends since the last signaled one
	sent, done    int
	got, received int // messages of the peer; and receives posted for them
	credit        credit
}

// datagramPeer is the path to a peer that the QP is not connected with.
type datagramPeer struct {
	ah        *uverbs.AH
	qpn, qkey uint32
	dcKey     uint64
}

// place is where the messages of a work request are.
type place struct {
	sge   [1]verbs.SGE
	data  []byte // the whole part, for inline data
	local uint64
}

// A WRID holds the index of the flow and the kind of the work request.
const (
	isRecv   = 1 << 32
	isCredit = 1 << 33
)

// recvBatch is how many receives are posted at a time, at most: as many as
// completions are polled.
const recvBatch = pollBatch

// prepare sets up the work requests for messages of a size.
//
// C: ctx_set_send_reg_wqes, ctx_set_recv_wqes
func (f *flow) prepare(e *end, size int) {
	f.step, f.slots, f.slot, f.silent = 0, 1, 0, 0
	f.sent, f.done, f.got, f.received = 0, 0, 0, 0
	if !e.Latency {
		f.step, f.slots = e.walk(size)
	}
	f.sends, f.place = make([]verbs.SendWR, e.PostList), make([]place, e.PostList)
	for j := range f.sends {
		f.prepareSend(e, j, size)
	}
	if e.Verb == perftest.Send {
		f.prepareRecvs(e, size)
	}
}

func (f *flow) prepareSend(e *end, j, size int) {
	offset := f.index * e.part
	p := &f.place[j]
	p.sge[0], p.local = e.mr.SGE(offset, size), e.mr.Addr()+uint64(offset)
	wr := verbs.SendWR{WRID: uint64(f.index), Opcode: e.opcode(), SGL: p.sge[:],
		RemoteAddr: f.peer.VAddr, RKey: f.peer.RKey,
		AH: f.to.ah, RemoteQPN: f.to.qpn, RemoteQKey: f.to.qkey, DCKey: f.to.dcKey}
	if e.Verb == perftest.Atomic {
		wr.CompareAdd, wr.Swap = 1, 1
	}
	if size <= e.Inline {
		p.data = e.mr.Bytes()[offset : offset+e.part]
		wr.SGL, wr.Inline = nil, p.data[:size]
	}
	if (j+1)%e.CQMod == 0 {
		wr.Flags = verbs.SendSignaled
	}
	f.sends[j] = wr
	f.aim(j, j%f.slots)
}

// aim points the j-th work request to the message of a slot.
func (f *flow) aim(j, slot int) {
	wr, p, offset := &f.sends[j], &f.place[j], slot*f.step
	p.sge[0].Addr = p.local + uint64(offset)
	if p.data != nil {
		wr.Inline = p.data[offset : offset+len(wr.Inline)]
	}
	wr.RemoteAddr = f.peer.VAddr + uint64(offset)
}

func (o *Options) opcode() verbs.Opcode {
	switch o.Verb {
	case perftest.Write:
		return verbs.OpRDMAWrite
	case perftest.Read:
		return verbs.OpRDMARead
	case perftest.Atomic:
		return o.Atomic
	}
	return verbs.OpSend
}

func (f *flow) prepareRecvs(e *end, size int) {
	if e.Type == verbs.QPTypeUD {
		size += uverbs.GRHSize
	}
	step, slots := 0, 1
	if !e.Latency {
		step, slots = e.walk(size)
	}
	f.recvs = make([]verbs.RecvWR, recvBatch)
	for i := range f.recvs {
		at := e.front + f.index*e.part + i%slots*step
		f.recvs[i] = verbs.RecvWR{WRID: uint64(f.index) | isRecv, SGL: []verbs.SGE{e.mr.SGE(at, size)}}
	}
}

// postRecvs posts n receives.
func (f *flow) postRecvs(n int) error {
	var queue interface {
		PostRecv([]verbs.RecvWR) (int, error)
	} = f.qp
	if f.srq != nil {
		queue = f.srq
	}
	for n > 0 {
		batch := min(n, len(f.recvs))
		if _, err := queue.PostRecv(f.recvs[:batch]); err != nil {
			return err
		}
		f.received += batch
		n -= batch
	}
	return nil
}

// send posts the next list of messages. last is the number of all messages, or 0 if
// it is unknown.
func (f *flow) send(e *end, last int) error {
	if len(f.sends) == 1 {
		f.aimNext(e.CQMod, last)
	}
	if e.Streams > 0 {
		for i := range f.sends {
			f.sends[i].DCStream = uint16(f.stream)
			f.stream = (f.stream + 1) & (e.ActiveStreams - 1)
		}
	}
	if _, err := f.qp.PostSend(f.sends); err != nil {
		return fmt.Errorf("message %d: %w", f.sent+1, err)
	}
	f.sent += len(f.sends)
	return nil
}

// aimNext requests a completion for every CQMod-th message, and for the last one.
func (f *flow) aimNext(cqMod, last int) {
	f.aim(0, f.slot)
	if f.slot++; f.slot == f.slots {
		f.slot = 0
	}
	wr := &f.sends[0]
	wr.Flags = 0
	if f.silent++; f.silent == cqMod || f.sent+1 == last {
		f.silent, wr.Flags = 0, verbs.SendSignaled
	}
}

// hasRoom reports whether another list fits into the send queue.
func (f *flow) hasRoom(e *end) bool { return f.sent-f.done+len(f.sends) <= e.TxDepth }

// complete handles a completion, which covers the unsignaled sends before it too,
// and returns the number of messages that it covers.
func (f *flow) complete(cqMod int) int {
	n := min(cqMod, f.sent-f.done)
	f.done += n
	return n
}

// credit counts the receives that are posted at the other end of a flow.
type credit struct {
	given *atomic.Uint32 // number of messages received here, written to the peer from this memory
	got   *atomic.Uint32 // number of messages that the peer has received, written by the peer
	wr    [1]verbs.SendWR
	sge   [1]verbs.SGE
	every int // messages
	due   int // messages until the next
	busy  int // credits that have not completed
}

const (
	creditSize = 4
	creditRoom = 4 // credits under way
)

// prepareCredit prepares the WRITE that reports every third of the receive depth to
// the peer.
//
// C: ctx_set_credit_wqes
func (f *flow) prepareCredit(e *end) {
	c := &f.credit
	c.every = max(e.RxDepth/3, 1)
	c.due = c.every
	c.given.Store(0)
	c.sge[0] = e.creditMR.SGE(f.index*creditSize, creditSize)
	c.wr[0] = verbs.SendWR{WRID: uint64(f.index) | isCredit, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled,
		SGL: c.sge[:], RemoteAddr: f.peer.VAddr, RKey: f.peer.RKey}
}

// hasCredit reports whether the peer is sure to have a receive for each message of
// the next list.
func (f *flow) hasCredit(e *end) bool {
	return e.creditMR == nil || f.sent+len(f.sends)-int(f.credit.got.Load()) < e.RxDepth
}

// give writes the number of received messages to the peer when it is due. The
// device may read the number later, so the peer may get a newer one.
func (r *run) give(f *flow) error {
	c := &f.credit
	if c.due > 0 || c.busy == creditRoom {
		return nil
	}
	c.due = c.every
	c.given.Store(uint32(f.got))
	if _, err := f.qp.PostSend(c.wr[:]); err != nil {
		return err
	}
	c.busy++
	return nil
}

// gave notes that a credit got there, and gives the next if it had to wait.
func (r *run) gave(f *flow, wc *verbs.WC) error {
	if f.credit.busy == 0 {
		return notPosted(wc)
	}
	f.credit.busy--
	return r.give(f)
}
