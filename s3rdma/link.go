package s3rdma

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Link selects the port of the queue pairs of a [Transport] or a [Server]. The port must be RoCE.
type Link struct {
	// PD is the protection domain of the queue pairs and of the memory. It must not be nil.
	PD *uverbs.PD
	// Port is the number of the device's port, from 1. Zero stands for 1.
	Port int
	// GID restricts the choice of the own GID, which must be of the same type and address family as the other
	// side's. A Server chooses one of the client's family. Nil allows any.
	GID *uverbs.GIDChoice
	// MTU is the path MTU. The protocol does not negotiate it, so both sides must use the same. Zero stands for the
	// port's active MTU, which other implementations use.
	MTU verbs.MTU
}

// side is what all transfers of a Transport or a Server share.
type side struct {
	Link
	channel *uverbs.CompChannel
	message int // the most bytes of one work request
}

func newSide(l Link) (*side, error) {
	if l.PD == nil {
		return nil, fmt.Errorf("the PD is nil: %w", syscall.EINVAL)
	}
	l.Port = cmp.Or(l.Port, 1)
	dev := l.PD.Device()
	port, err := dev.QueryPort(l.Port)
	if err != nil {
		return nil, err
	}
	if dev.Info().NodeType == verbs.NodeRNIC || port.LinkLayer != verbs.LinkEthernet {
		return nil, fmt.Errorf("%w: the protocol is for RoCE only", verbs.ErrNotSupported)
	}
	if l.MTU != 0 && l.MTU.Bytes() == 0 {
		return nil, fmt.Errorf("the MTU is not one of MTU256 to MTU4096: %w", syscall.EINVAL)
	}
	channel, err := dev.CreateCompChannel()
	if err != nil {
		return nil, err
	}
	return &side{Link: l, channel: channel, message: int(min(cmp.Or(port.MaxMsgSize, MaxSize), MaxSize))}, nil
}

// pair is the queue pair of one transfer.
type pair struct {
	side *side
	gid  *verbs.GIDEntry
	cq   *uverbs.CQ
	qp   *uverbs.QP
	psn  uint32 // of the first packet that this side sends

	srq *uverbs.SRQ // of a DCT
	ah  *uverbs.AH  // of a DCI: the peer's address
}

// begin chooses a GID and creates a CQ for the completions of one queue pair. peer is the peer's address if it is
// known.
func (s *side) begin(peer netip.Addr, entries int) (*pair, error) {
	var choice uverbs.GIDChoice
	if s.GID != nil {
		choice = *s.GID
	}
	if peer.IsValid() && !choice.IPv4 && !choice.IPv6 && !choice.Addr.IsValid() {
		choice.IPv4, choice.IPv6 = peer.Is4(), !peer.Is4()
	}
	dev := s.PD.Device()
	p := &pair{side: s, psn: random(max24Bits)}
	var err error
	if p.gid, err = dev.ChooseGID(s.Port, &choice); err != nil {
		return nil, err
	}
	p.cq, err = dev.CreateCQ(entries, &uverbs.CQOptions{Channel: s.channel})
	return p, err
}

// open creates a queue pair in INIT. access is what the peer may do.
func (s *side) open(access verbs.Access, peer netip.Addr, sends int) (*pair, error) {
	p, err := s.begin(peer, sends+1)
	if err != nil {
		return nil, err
	}
	p.qp, err = s.PD.CreateQP(&uverbs.QPOptions{SendCQ: p.cq, RecvCQ: p.cq,
		Cap: verbs.QPCap{MaxSendWR: uint32(sends), MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err == nil {
		err = p.qp.Init(&verbs.QPAttr{Port: s.Port, Access: access})
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// token returns the address for the peer.
func (p *pair) token() token {
	return token{qpn: p.qp.QPN(), gid: p.gid.GID, port: uint8(p.side.Port)}
}

// connect moves the queue pair to RTS.
func (p *pair) connect(peer *token, psn uint32) error {
	if p.gid.GID.Addr().Is4() != peer.gid.Addr().Is4() {
		return &familyError{own: p.gid.GID, peer: peer.gid}
	}
	ah := verbs.AHAttr{Global: true, DGID: peer.gid, SGIDIndex: p.gid.Index, HopLimit: 64, Port: p.side.Port}
	return p.qp.Connect(&verbs.QPAttr{Port: p.side.Port, AH: ah, PathMTU: p.side.MTU, DestQPN: peer.qpn, RQPSN: psn, SQPSN: p.psn})
}

// familyError means that the GIDs of both sides are of different address families.
type familyError struct{ own, peer verbs.GID }

func (e *familyError) Error() string {
	return fmt.Sprintf("the GID %v here and the peer's %v are of different address families: see Link.GID", e.own, e.peer)
}

// expect posts the receive that the peer's write completes. It needs no memory.
func (p *pair) expect() error {
	_, err := p.qp.PostRecv([]verbs.RecvWR{{}})
	return err
}

// write writes memory to the peer. Only the last work request has the cookie and is signaled.
func (p *pair) write(mr *uverbs.MR, n int, addr uint64, rkey, cookie uint32) error {
	wrs := make([]verbs.SendWR, 0, p.side.requests(n))
	for at := 0; at < n; at += p.side.message {
		size := min(n-at, p.side.message)
		wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{mr.SGE(at, size)}, RemoteAddr: addr + uint64(at), RKey: rkey}
		if at+size == n {
			wr.Opcode, wr.Flags, wr.Imm = verbs.OpRDMAWriteImm, verbs.SendSignaled, cookie
		}
		wrs = append(wrs, wr)
	}
	return p.post(wrs)
}

func (p *pair) post(wrs []verbs.SendWR) error {
	sent, err := p.qp.PostSend(wrs)
	if sent == len(wrs) && err != nil { // only the doorbell failed
		_, err = p.qp.PostSend(nil)
	}
	return err
}

// requests returns how many work requests write n bytes.
func (s *side) requests(n int) int { return (n + s.message - 1) / s.message }

// wait returns the next completion.
func (p *pair) wait(ctx context.Context) (wc verbs.WC, err error) {
	var wcs [1]verbs.WC
	if _, err := p.cq.Wait(ctx, wcs[:]); err != nil {
		return wc, err
	}
	return wcs[0], wcs[0].Err()
}

// arrival waits for the peer's write, and returns the length of its last message.
func (p *pair) arrival(ctx context.Context, cookie uint32) (int64, error) {
	wc, err := p.wait(ctx)
	switch {
	case err != nil:
		return 0, err
	case wc.Opcode != verbs.WCRecvRDMAWithImm || wc.Flags&verbs.WCWithImm == 0 || wc.Imm != cookie:
		return 0, violation("%v with immediate data %#x has arrived, want %v with %#x", wc.Opcode, wc.Imm, verbs.WCRecvRDMAWithImm, cookie)
	}
	return int64(wc.ByteLen), nil
}

// close destroys the queue pair, so that the peer can't reach any memory through it.
func (p *pair) close() error {
	var errs []error
	if p.qp != nil {
		errs = append(errs, p.qp.Close())
	}
	if p.srq != nil {
		errs = append(errs, p.srq.Close())
	}
	if p.ah != nil {
		errs = append(errs, p.ah.Close())
	}
	return errors.Join(append(errs, p.cq.Close())...)
}

// random returns a random number from 1 to most, which is one less than a power of two.
func random(most uint32) uint32 {
	for {
		var b [4]byte
		_, _ = rand.Read(b[:]) // never fails
		if n := binary.BigEndian.Uint32(b[:]) & most; n != 0 {
			return n
		}
	}
}

// failed returns the error of an operation, or nil.
func (l *Link) failed(op, object string, err error) error {
	if err == nil {
		return nil
	}
	device := ""
	if l.PD != nil {
		device = l.PD.Device().Info().Name
	}
	return &verbs.Error{Op: op, Object: object, Device: device, Err: err}
}
