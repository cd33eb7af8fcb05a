package uverbs

import (
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// Sends writes requests into the send queue of a QP one at a time. [QP.Sends] returns it. Only one
// goroutine may use it, and only until it calls Ring.
//
// Experimental: may change in any release; see docs/stability.md.
type Sends struct {
	qp      *QP
	lock    *driver.Lock       // held from QP.Sends to Ring
	builder driver.SendBuilder // the QP's, or list
	list    *sendList          // nil if the QP has a builder
	begun   bool               // between QP.Sends and Ring
}

// Sends begins a list of requests. The caller adds them one at a time, and Ring hands them to the
// device. Unlike with PostSend, the caller need not fill in a [verbs.SendWR] for each request.
// With mlx5, the requests go straight into the queue. With other drivers, Ring posts them with
// PostSend.
//
//	q := qp.Sends()
//	q.WriteInline(1, verbs.SendSignaled, data, addr, rkey)
//	n, err := q.Ring()
//
// Sends locks the QP's sends until Ring. Meanwhile other goroutines wait in Sends and, depending
// on the driver, in PostSend, Modify and Close. So always call Ring, and call it soon. Before
// Ring, call no other method of the QP or of its connection. The QP's type must be RC, UC, raw
// packet or DCI; with others Ring returns an error that matches [verbs.ErrNotSupported]. If the QP is
// closed, Ring returns [verbs.ErrClosed]. A list that is not longer than an earlier one of the QP
// allocates nothing.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: ibv_wr_start
func (qp *QP) Sends() *Sends {
	s := &qp.sends
	if s.lock == nil { // of a zero QP
		s.init(qp)
	}
	s.lock.Lock()
	var refused error
	switch {
	case s.list == nil && !qp.fastPath:
		refused = verbs.ErrClosed
	case qp.typ == verbs.QPTypeUD || qp.typ == verbs.QPTypeSRD || qp.typ == verbs.QPTypeXRCInitiator:
		refused = fmt.Errorf("%w: %v requests name a peer, for which Sends has no argument: use PostSend", verbs.ErrNotSupported, qp.typ)
	}
	s.begun = true
	s.builder.StartSends(refused)
	return s
}

// SetDCAddr sets the target of the requests that are added after it, until another SetDCAddr or Ring. The target is the
// DCT with the number dctn and the key at the address of ah. stream is that of the requests, see [verbs.DCStreams], and
// 0 if the DCI has no streams. A DCI must have a target, and with other QPs Ring returns an error that matches
// [verbs.ErrNotSupported].
//
//	q := dci.Sends()
//	q.SetDCAddr(ah, dctn, key, 0)
//	q.Write(1, 0, first, addr, rkey)
//	q.Write(2, verbs.SendSignaled, second, addr+1<<20, rkey)
//	n, err := q.Ring()
//
// C: mlx5dv_wr_set_dc_addr_stream, which each request needs
func (s *Sends) SetDCAddr(ah *AH, dctn uint32, key uint64, stream uint16) {
	s.builder.BuildTarget(ah, dctn, key, stream)
}

// Send adds a send of the memory of one SGE.
//
// C: ibv_wr_send, ibv_wr_set_sge
func (s *Sends) Send(id uint64, flags verbs.SendFlags, e verbs.SGE) {
	s.builder.BuildSend(id, flags, e)
}

// SendInline adds a send of data, which must not change before Ring. [verbs.QPCap].MaxInline is
// the limit of its length.
//
// C: ibv_wr_send, ibv_wr_set_inline_data
func (s *Sends) SendInline(id uint64, flags verbs.SendFlags, data []byte) {
	s.builder.BuildSendInline(id, flags, data)
}

// Write adds an RDMA write of the memory of one SGE to the peer's memory at addr.
//
// C: ibv_wr_rdma_write, ibv_wr_set_sge
func (s *Sends) Write(id uint64, flags verbs.SendFlags, e verbs.SGE, addr uint64, rkey uint32) {
	s.builder.BuildWrite(id, flags, e, addr, rkey)
}

// WriteInline adds an RDMA write of data to the peer's memory at addr. The rules of SendInline apply
// to data.
//
// C: ibv_wr_rdma_write, ibv_wr_set_inline_data
func (s *Sends) WriteInline(id uint64, flags verbs.SendFlags, data []byte, addr uint64, rkey uint32) {
	s.builder.BuildWriteInline(id, flags, data, addr, rkey)
}

// Ring rings the doorbell for the requests that were added, and unlocks the QP. Its results are those
// of [QP.PostSend]: it returns the number n of requests that are queued, and if request n was refused,
// an error that says why. The requests after that are dropped. A second Ring returns an error.
//
// C: ibv_wr_complete
func (s *Sends) Ring() (n int, err error) {
	if !s.begun {
		return 0, s.qp.sendError(fmt.Errorf("%w: Ring without an earlier send", syscall.EINVAL))
	}
	s.begun = false
	if s.list != nil {
		if err = s.list.refused; err != nil {
			err = s.qp.sendError(err)
		} else {
			n, err = s.qp.PostSend(s.list.wrs)
		}
		s.list.drop()
		s.lock.Unlock()
		return n, err
	}
	n, err = s.builder.RingSends()
	s.lock.Unlock()
	if err != nil {
		return n, s.qp.sendError(err)
	}
	return n, nil
}

// init prepares the Sends of a QP.
func (s *Sends) init(qp *QP) {
	s.qp, s.lock = qp, &qp.sq
	if b, ok := qp.ring.(driver.SendBuilder); ok {
		s.builder = b
		return
	}
	s.list = new(sendList)
	s.builder, s.lock = s.list, &s.list.lock
}

// sendList collects requests for a provider that has no driver.SendBuilder.
type sendList struct {
	lock    driver.Lock
	refused error
	wrs     []verbs.SendWR
	sges    [][1]verbs.SGE // when it grows, the SGLs of wrs keep using the old array
}

func (l *sendList) StartSends(refused error) {
	l.drop() // of requests that were added after Ring
	l.refused = refused
}

func (l *sendList) BuildTarget(verbs.AH, uint32, uint64, uint16) {
	if l.refused == nil {
		l.refused = driver.ErrNoTarget
	}
}

func (l *sendList) RingSends() (int, error) { return 0, nil }

// add appends a request with an SGE, if e is not nil.
func (l *sendList) add(wr verbs.SendWR, e *verbs.SGE) {
	if e != nil {
		l.sges = append(l.sges, [1]verbs.SGE{*e})
		wr.SGL = l.sges[len(l.sges)-1][:]
	}
	l.wrs = append(l.wrs, wr)
}

// drop forgets the requests and what they refer to.
func (l *sendList) drop() {
	clear(l.wrs)
	l.wrs, l.sges = l.wrs[:0], l.sges[:0]
}

func (l *sendList) BuildSend(id uint64, flags verbs.SendFlags, e verbs.SGE) {
	l.add(verbs.SendWR{WRID: id, Opcode: verbs.OpSend, Flags: flags}, &e)
}

func (l *sendList) BuildSendInline(id uint64, flags verbs.SendFlags, data []byte) {
	l.add(verbs.SendWR{WRID: id, Opcode: verbs.OpSend, Flags: flags, Inline: data}, nil)
}

func (l *sendList) BuildWrite(id uint64, flags verbs.SendFlags, e verbs.SGE, addr uint64, rkey uint32) {
	l.add(verbs.SendWR{WRID: id, Opcode: verbs.OpRDMAWrite, Flags: flags, RemoteAddr: addr, RKey: rkey}, &e)
}

func (l *sendList) BuildWriteInline(id uint64, flags verbs.SendFlags, data []byte, addr uint64, rkey uint32) {
	l.add(verbs.SendWR{WRID: id, Opcode: verbs.OpRDMAWrite, Flags: flags, Inline: data, RemoteAddr: addr, RKey: rkey}, nil)
}

// Format implements [fmt.Formatter]. It prints the queue pair, never the requests.
func (s *Sends) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "sends of %v", s.qp) }
