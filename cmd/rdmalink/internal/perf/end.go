package perf

import (
	"errors"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// end is one end of a run: the objects that it works with.
//
// C: struct pingpong_context
type end struct {
	*Options
	memory
	*uverbs.Endpoint
	dev    *uverbs.Device
	port   *verbs.PortAttr
	mr     *uverbs.MR
	words  *mmap.Region // mr's memory, polled while the peer writes to it
	sendCQ *uverbs.CQ
	recvCQ *uverbs.CQ // the same one where both directions are measured
	flows  []*flow

	creditMR *uverbs.MR // nil unless credits are needed
}

// Close ends the connections first, which the QPs may belong to.
func (e *end) Close() error {
	var err error
	for _, f := range e.flows {
		if f.close != nil {
			err = errors.Join(err, f.close())
		}
	}
	return errors.Join(err, e.Endpoint.Close())
}

func (e *end) iWARP() bool { return e.dev.Info().NodeType == verbs.NodeRNIC }

// newEnd creates the objects that all QPs share.
func newEnd(o *Options, dev *uverbs.Device, port *verbs.PortAttr, sys perftest.System) (*end, error) {
	e := &end{Options: o, memory: o.layout(sys), dev: dev, port: port}
	for i := range o.QPCount {
		e.flows = append(e.flows, &flow{index: i})
	}
	var err error
	if e.Endpoint, err = dev.CreateEndpoint(e.endpointOptions()); err != nil {
		return nil, err
	}
	e.sendCQ, e.recvCQ = e.SendCQ, e.RecvCQ
	for _, step := range []func() error{e.makeMemory, e.makeCredits} {
		if err := step(); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	return e, nil
}

// makeMemory leaves the buffer zero where WRITE is timed: the peer's counter is
// looked for there.
func (e *end) makeMemory() (err error) {
	if e.mr, err = e.PD.AllocMR(2*e.front, e.access(e.iWARP()), nil); err != nil {
		return err
	}
	if e.words, err = mmap.Wrap(e.mr.Bytes()); err != nil {
		return err
	}
	if !e.Latency || e.Verb != perftest.Write {
		for i, b := 0, e.mr.Bytes(); i < len(b); i++ {
			b[i] = byte(i * 7)
		}
	}
	return nil
}

// needsCredits: iWARP ends a connection on which a message finds no receive, so
// the receiving end writes to the sending one how many messages it has received.
func (e *end) needsCredits() bool { return e.iWARP() && e.Verb == perftest.Send && !e.Latency }

// C: ctx_alloc_credit
func (e *end) makeCredits() (err error) {
	if !e.needsCredits() {
		return nil
	}
	if e.creditMR, err = e.PD.AllocMR(2*creditSize*e.QPCount, verbs.AccessLocalWrite|verbs.AccessRemoteWrite, nil); err != nil {
		return err
	}
	region, err := mmap.Wrap(e.creditMR.Bytes())
	if err != nil {
		return err
	}
	for i, f := range e.flows {
		if f.credit.given, err = region.Word(i * creditSize); err != nil {
			return err
		}
		if f.credit.got, err = region.Word((e.QPCount + i) * creditSize); err != nil {
			return err
		}
	}
	return nil
}

// endpointOptions gives sends and receives one CQ if the order of their completions does
// not matter.
func (e *end) endpointOptions() *uverbs.EndpointOptions {
	sends, recvs := (e.TxDepth+creditRoom)*e.QPCount, e.RxDepth*e.QPCount
	switch {
	case e.Bidirectional || e.needsCredits():
		sends, recvs = sends+recvs, 0
	case e.Verb != perftest.Send:
		recvs = 0
	}
	return &uverbs.EndpointOptions{SendCQEntries: sends, RecvCQEntries: recvs, CQ: uverbs.CQOptions{CompVector: e.CompVector}}
}

// qpOptions describe each QP that sends.
func (e *end) qpOptions() uverbs.QPOptions {
	if e.Type == verbs.QPTypeDCI {
		opts := uverbs.QPOptions{Type: e.Type, SendCQ: e.sendCQ, Cap: verbs.QPCap{MaxSendWR: uint32(e.TxDepth), MaxSendSGE: 1, MaxInline: uint32(e.Inline)}}
		if e.Streams > 0 {
			opts.DCStreams = verbs.DCStreams{Concurrent: uint32(e.Streams), Errored: 1}
		}
		return opts
	}
	return uverbs.QPOptions{Type: e.Type, SendCQ: e.sendCQ, RecvCQ: e.recvCQ, Cap: verbs.QPCap{
		MaxSendWR: uint32(e.TxDepth + creditRoom), MaxRecvWR: uint32(e.RxDepth),
		MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: uint32(e.Inline)}}
}

// lastByte returns the word with the byte that a WRITE of a size by the peer changes last, and
// the position of the byte in the word.
func (e *end) lastByte(size int) (word *atomic.Uint32, shift uint, err error) {
	at := e.front + size - 1
	word, err = e.words.Word(at &^ 3)
	return word, uint(at&3) * 8, err
}

// memory is the layout of an end's buffer. For each QP it has a part to send from,
// or to read into, and a part to receive into, which is also the part that the peer
// writes to and reads. Consecutive small messages use addresses at least a cache
// line apart, within the larger of the two ends' page sizes.
type memory struct {
	part, front int // bytes of a part; and before the receiving parts
	cycle, line int
}

func (o *Options) layout(sys perftest.System) memory {
	m := memory{cycle: sys.CycleBuffer, line: sys.CacheLine}
	m.part = roundUp(max(o.Size, m.cycle), m.line)
	if o.Type == verbs.QPTypeUD {
		m.part = roundUp(max(o.Size+uverbs.GRHSize, m.cycle), m.line)
	}
	m.front = o.QPCount * m.part
	return m
}

func roundUp(n, step int) int { return (n + step - 1) / step * step }

// walk returns the distance from a message of a size to the next, and the number of
// messages before the first place is used again.
//
// C: increase_loc_addr
func (m memory) walk(size int) (step, slots int) {
	if size > m.cycle/2 {
		return 0, 1
	}
	step = roundUp(max(size, 1), m.line)
	return step, max(m.cycle/step, 1)
}

// access returns the peer's access rights to the buffer. For iWARP they include the
// destination of READs.
func (o *Options) access(iWARP bool) verbs.Access {
	a := verbs.AccessLocalWrite
	if o.ODP {
		a |= verbs.AccessOnDemand
	}
	switch o.Verb {
	case perftest.Write:
		a |= verbs.AccessRemoteWrite
	case perftest.Read:
		a |= verbs.AccessRemoteRead
		if iWARP {
			a |= verbs.AccessRemoteWrite
		}
	case perftest.Atomic:
		a |= verbs.AccessRemoteAtomic
	}
	return a
}
