package selftest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goverbs/goverbs/verbs"
)

// sizes lists message sizes at the limits of requests, segments and packets.
func (p *pair) sizes(op verbs.Opcode) (all []int) {
	mtu, most := p.link.ActiveMTU.Bytes(), longest
	switch p.typ {
	case verbs.QPTypeUC:
		most = 16 * mtu
	case verbs.QPTypeUD:
		most = mtu
	case verbs.QPTypeSRD:
		if op == verbs.OpSend || op == verbs.OpSendImm {
			most = min(most, int(p.link.MaxMsgSize))
		}
	}
	for _, n := range []int{0, 1, 7, 8, 15, 16, 17, 63, 64, 65, 1000, mtu - 1, mtu, mtu + 1, 2*mtu + 3, longest} {
		if n <= most && (n > 0 || !p.iwarp() && !p.takesOneSGE(op)) {
			all = append(all, n)
		}
	}
	return all
}

// messages tries an operation in all sizes, from one piece of memory, from several, and
// inline.
func messages(typ verbs.QPType, op verbs.Opcode) func(*environment) (string, error) {
	return func(b *environment) (string, error) {
		if !b.dev.Supports(typ, op) {
			return "", none("%v queue pairs have no %v", typ, op)
		}
		p, err := b.pair(typ)
		if err != nil {
			return "", err
		}
		n := 0
		for _, form := range []func(int) (m message, ok bool){
			func(size int) (message, bool) { return message{op: op, size: size}, true },
			func(size int) (message, bool) {
				return message{op: op, size: size, pieces: p.pieces(op)}, size >= 16 && p.pieces(op) > 1
			},
			func(size int) (message, bool) {
				return message{op: op, size: size, inline: true}, size > 0 && op != verbs.OpRDMARead && !p.takesOneSGE(op) && size <= int(p.ends[0].qp.Cap().MaxInline)
			},
		} {
			for _, size := range p.sizes(op) {
				m, ok := form(size)
				if !ok {
					continue
				}
				if err := p.message(m); err != nil {
					return fmt.Sprintf("%d messages", n), fmt.Errorf("%v: %w", m, err)
				}
				n++
			}
		}
		detail := fmt.Sprintf("%d messages, to %d bytes", n, slices.Max(p.sizes(op)))
		if op != verbs.OpRDMARead && !p.takesOneSGE(op) {
			detail += fmt.Sprintf(", inline to %d", p.ends[0].qp.Cap().MaxInline)
		}
		return detail, nil
	}
}

// message is one to try.
type message struct {
	op     verbs.Opcode
	size   int
	pieces int // 0 is one
	inline bool
}

func (m message) String() string {
	s := fmt.Sprintf("%v of %d bytes", m.op, m.size)
	switch {
	case m.pieces > 0:
		s += fmt.Sprintf(" in %d pieces", m.pieces)
	case m.inline:
		s += " inline"
	}
	return s
}

const immediate = 0xa1b2c3d4

// takesRecv reports whether an operation completes a receive of the peer.
func takesRecv(op verbs.Opcode) bool { return op != verbs.OpRDMAWrite && op != verbs.OpRDMARead }

// pieces returns the largest number of pieces of a message's memory, at most four.
func (p *pair) pieces(op verbs.Opcode) int {
	most := p.sges
	if p.hasTarget() {
		most = min(most, p.attr.MaxSRQSGE)
	}
	if op == verbs.OpRDMARead || p.takesOneSGE(op) {
		most = min(most, p.attr.MaxSGERead)
	}
	return int(most)
}

// isAddressed reports whether each work request names the peer.
func (p *pair) isAddressed() bool { return p.typ == verbs.QPTypeUD || p.typ == verbs.QPTypeSRD }

// takesOneSGE reports whether an operation needs exactly one piece of memory, as reads and writes of SRD do.
func (p *pair) takesOneSGE(op verbs.Opcode) bool {
	return p.typ == verbs.QPTypeSRD && op != verbs.OpSend && op != verbs.OpSendImm
}

// sgl names memory of an end, in pieces of different lengths.
func (e *end) sgl(at, n, pieces int) (sgl []verbs.SGE) {
	for ; pieces > 1; pieces-- {
		some := n / 3
		sgl = append(sgl, e.mr.SGE(at, some))
		at, n = at+some, n-some
	}
	if n > 0 {
		sgl = append(sgl, e.mr.SGE(at, n))
	}
	return sgl
}

func (p *pair) message(m message) error {
	from, to := &p.ends[0], &p.ends[1]
	wr := verbs.SendWR{Opcode: m.op, Imm: immediate, SGL: from.sgl(0, m.size, m.pieces)}
	source, target := from.source(m.size), to.target(m.size)
	switch {
	case m.op == verbs.OpRDMARead:
		source, target = to.source(m.size), from.target(m.size)
		wr.RemoteAddr, wr.RKey, wr.SGL = to.mr.Addr(), to.mr.RKey(), from.sgl(half, m.size, m.pieces)
		if m.size == 0 { // some devices want a place even so
			wr.SGL = []verbs.SGE{from.mr.SGE(half, 0)}
		}
	case m.op == verbs.OpRDMAWrite || m.op == verbs.OpRDMAWriteImm:
		wr.RemoteAddr, wr.RKey = to.mr.Addr()+half, to.mr.RKey()
	}
	p.fill(source)
	clear(target)
	if m.inline {
		wr.SGL, wr.Inline = nil, source
	}
	header := 0
	if p.typ == verbs.QPTypeUD {
		header = grh
	}
	if takesRecv(m.op) {
		room := m.size + header
		if p.typ == verbs.QPTypeSRD {
			room = max(room, 1) // a receive without memory is refused
		}
		if err := p.postRecv(verbs.RecvWR{WRID: p.id(), SGL: to.sgl(half-header, room, m.pieces)}); err != nil {
			return err
		}
	}
	if err := p.send(wr); err != nil {
		return err
	}
	if takesRecv(m.op) {
		wcs, err := p.wait(to.recvs, 1)
		if err != nil {
			return err
		}
		if err := p.received(&wcs[0], m, header); err != nil {
			return err
		}
	}
	return p.same("data", target, source)
}

// received checks the completion of a receive.
func (p *pair) received(wc *verbs.WC, m message, header int) error {
	withImm := m.op == verbs.OpSendImm || m.op == verbs.OpRDMAWriteImm
	switch {
	case wc.QPN != p.ends[1].qp.QPN():
		return fmt.Errorf("the receive is of QP %d, not %d", wc.QPN, p.ends[1].qp.QPN())
	case int(wc.ByteLen) != m.size+header:
		return fmt.Errorf("the receive has %d bytes, not %d", wc.ByteLen, m.size+header)
	case withImm && (wc.Flags&verbs.WCWithImm == 0 || wc.Imm != immediate):
		return fmt.Errorf("the immediate data is %#x (flags %#x), not %#x", wc.Imm, wc.Flags, uint32(immediate))
	case p.isAddressed() && wc.SrcQPN != p.ends[0].qp.QPN():
		return fmt.Errorf("the datagram is of QP %d, not %d", wc.SrcQPN, p.ends[0].qp.QPN())
	}
	return nil
}

// replies answers datagrams to the address that their completion and header have.
func replies(b *environment) (string, error) {
	p, err := b.pair(verbs.QPTypeUD)
	if err != nil {
		return "", err
	}
	if p.hasSRD() {
		return "", none("completions of EFA name a sender by its address handle, which only a program has")
	}
	from, to := &p.ends[0], &p.ends[1]
	const size, times = 100, 5
	for range times {
		p.fill(from.source(size))
		p.fill(to.source(size))
		clear(from.target(size))
		if _, err := from.qp.PostRecv([]verbs.RecvWR{{WRID: p.id(), SGL: from.sgl(half-grh, size+grh, 1)}}); err != nil {
			return "", err
		}
		if err := p.postRecv(verbs.RecvWR{WRID: p.id(), SGL: to.sgl(half-grh, size+grh, 1)}); err != nil {
			return "", err
		}
		if err := p.send(verbs.SendWR{Opcode: verbs.OpSend, SGL: from.sgl(0, size, 1)}); err != nil {
			return "", err
		}
		wcs, err := p.wait(to.recvs, 1)
		if err != nil {
			return "", err
		}
		ah, err := p.pd.AHFromWC(p.port, &wcs[0], to.mem[half-grh:][:grh])
		if err != nil {
			return "", err
		}
		reply := verbs.SendWR{WRID: p.id(), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: to.sgl(0, size, 1), AH: ah, RemoteQPN: wcs[0].SrcQPN, RemoteQKey: qkey}
		_, err = to.qp.PostSend([]verbs.SendWR{reply})
		if err := errors.Join(p.own("reply", err), ah.Close()); err != nil {
			return "", err
		}
		if wcs, err = p.wait(from.recvs, 1); err != nil {
			return "", err
		}
		if wcs[0].SrcQPN != to.qp.QPN() {
			return "", fmt.Errorf("the reply is of QP %d, not %d", wcs[0].SrcQPN, to.qp.QPN())
		}
		if err := p.same("a reply", from.target(size), slices.Clone(to.source(size))); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d datagrams and their replies", times), nil
}
