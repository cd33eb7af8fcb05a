package perf

import (
	"errors"
	"io"
	"slices"
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
	dev    *uverbs.Device
	port   *verbs.PortAttr
	pd     *uverbs.PD
	mr     *uverbs.MR
	words  *mmap.Region // mr's memory, polled while the peer writes to it
	sendCQ *uverbs.CQ
	recvCQ *uverbs.CQ // the same one where both directions are measured
	flows  []*flow

	creditMR *uverbs.MR // nil unless credits are needed
	rest     []io.Closer
}

func (e *end) own(c io.Closer) { e.rest = append(e.rest, c) }

// Close closes the QPs first, which ends their outstanding work.
func (e *end) Close() error {
	var err error
	for _, f := range e.flows {
		if f.close != nil {
			err = errors.Join(err, f.close())
		}
	}
	for _, c := range slices.Backward(e.rest) {
		err = errors.Join(err, c.Close())
	}
	return err
}

func (e *end) iWARP() bool { return e.dev.Info().NodeType == verbs.NodeRNIC }

// newEnd creates the objects that all QPs share.
func newEnd(o *Options, dev *uverbs.Device, port *verbs.PortAttr, sys perftest.System) (*end, error) {
	e := &end{Options: o, memory: o.layout(sys), dev: dev, port: port}
	for i := range o.QPCount {
		e.flows = append(e.flows, &flow{index: i})
	}
	for _, step := range []func() error{e.makeMemory, e.makeCredits, e.makeCQs} {
		if err := step(); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	return e, nil
}

// makeMemory leaves the buffer zero where WRITE is timed: the peer's counter is
// looked for there.
func (e *end) makeMemory() (err error) {
	if e.pd, err = e.dev.AllocPD(); err != nil {
		return err
	}
	e.own(e.pd)
	if e.mr, err = e.pd.AllocMR(2*e.front, e.access(e.iWARP()), nil); err != nil {
		return err
	}
	e.own(e.mr)
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

// makeCredits: iWARP ends a connection on which a message finds no receive, so
// the receiving end writes to the sending one how many messages it has received.
//
// C: ctx_alloc_credit
func (e *end) makeCredits() (err error) {
	if !e.iWARP() || e.Verb != perftest.Send || e.Latency {
		return nil
	}
	if e.creditMR, err = e.pd.AllocMR(2*creditSize*e.QPCount, verbs.AccessLocalWrite|verbs.AccessRemoteWrite, nil); err != nil {
		return err
	}
	e.own(e.creditMR)
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

// makeCQs creates the CQs. Sends and receives share one if the order of their
// completions does not matter.
func (e *end) makeCQs() (err error) {
	opts := uverbs.CQOptions{CompVector: e.CompVector}
	if e.Events {
		if opts.Channel, err = e.dev.CreateCompChannel(); err != nil {
			return err
		}
		e.own(opts.Channel)
	}
	sends, recvs := (e.TxDepth+creditRoom)*e.QPCount, e.RxDepth*e.QPCount
	shared := e.Bidirectional || e.creditMR != nil
	if shared {
		sends += recvs
	}
	if e.sendCQ, err = e.dev.CreateCQ(sends, &opts); err != nil {
		return err
	}
	e.own(e.sendCQ)
	if e.recvCQ = e.sendCQ; shared || e.Verb != perftest.Send {
		return nil
	}
	if e.recvCQ, err = e.dev.CreateCQ(recvs, &opts); err != nil {
		return err
	}
	e.own(e.recvCQ)
	return nil
}

// qpOptions describe each QP.
func (e *end) qpOptions() uverbs.QPOptions {
	return uverbs.QPOptions{Type: e.Type, SendCQ: e.sendCQ, RecvCQ: e.recvCQ, Cap: verbs.QPCap{
		MaxSendWR: uint32(e.TxDepth + creditRoom), MaxRecvWR: uint32(e.RxDepth),
		MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: uint32(e.Inline)}}
}

// lastByte is the word with the byte that the peer's WRITE of a size changes
// last, and where in the word the byte is.
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
