package selftest

import (
	"fmt"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

const windowed = 4096 // bytes of a window

// through writes by a window's key.
func (p *pair) through(key uint32) error {
	from, to := &p.ends[0], &p.ends[1]
	p.fill(from.source(windowed))
	clear(to.target(windowed))
	if err := p.send(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: from.sgl(0, windowed, 1), RemoteAddr: to.mr.Addr() + half, RKey: key}); err != nil {
		return fmt.Errorf("write by the window's key: %w", err)
	}
	return p.same("what was written by the window's key", to.target(windowed), from.source(windowed))
}

func (p *pair) window(typ verbs.MWType) (*uverbs.MW, error) {
	if !p.dev.Supports(verbs.QPTypeRC, verbs.OpBindMW) {
		return nil, none("there are no memory windows")
	}
	return p.ends[1].qp.PD().AllocMW(typ)
}

// own waits for a completion of a request that the second end posted itself.
func (p *pair) own(op string, err error) error {
	if err == nil {
		_, err = p.wait(p.ends[1].qp.SendCQ(), 1)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// bind binds a window of type 2 to the start of the second end's receive memory.
func (p *pair) bind(mw *uverbs.MW) (key uint32, err error) {
	to := &p.ends[1]
	key = uverbs.IncRKey(mw.RKey())
	_, err = to.qp.PostSend([]verbs.SendWR{{WRID: p.id(), Opcode: verbs.OpBindMW, Flags: verbs.SendSignaled,
		Bind: &verbs.BindMW{MW: mw, RKey: key, MR: to.mr, Addr: to.mr.Addr() + half, Length: windowed, Access: verbs.AccessRemoteWrite}}})
	return key, p.own("bind", err)
}

// bound returns the key of a new window of type 2.
func (p *pair) bound() (key uint32, err error) {
	mw, err := p.window(verbs.MWType2)
	if err != nil {
		return 0, err
	}
	return p.bind(mw)
}

// endWindow ends the key of a window of type 2.
func (p *pair) endWindow(key uint32) error {
	_, err := p.ends[1].qp.PostSend([]verbs.SendWR{{WRID: p.id(), Opcode: verbs.OpLocalInv, Flags: verbs.SendSignaled, InvalidateRKey: key}})
	return p.own("LOCAL_INV", err)
}

func windows1(b *environment) (string, error) {
	p, err := b.pair(verbs.QPTypeRC)
	if err != nil {
		return "", err
	}
	mw, err := p.window(verbs.MWType1)
	if err != nil {
		return "", err
	}
	to := &p.ends[1]
	const times = 5
	for range times {
		bind := verbs.BindMW{MR: to.mr, Addr: to.mr.Addr() + half, Length: windowed, Access: verbs.AccessRemoteWrite}
		if err := p.own("bind", mw.Bind(to.qp, p.id(), verbs.SendSignaled, bind)); err != nil {
			return "", err
		}
		if err := p.through(mw.RKey()); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d bindings", times), nil
}

// windows2 ends each binding: by its owner, and by the peer's SEND_WITH_INV.
func windows2(b *environment) (string, error) {
	p, err := b.pair(verbs.QPTypeRC)
	if err != nil {
		return "", err
	}
	mw, err := p.window(verbs.MWType2)
	if err != nil {
		return "", err
	}
	const times = 6
	for i := range times {
		key, err := p.bind(mw)
		if err != nil {
			return "", err
		}
		if err := p.through(key); err != nil {
			return "", err
		}
		if i%2 == 0 {
			if err := p.endWindow(key); err != nil {
				return "", err
			}
			continue
		}
		if err := p.endKey(key); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d bindings, ended by LOCAL_INV and SEND_WITH_INV", times), nil
}

func (p *pair) endKey(key uint32) error {
	if err := p.postRecv(verbs.RecvWR{WRID: p.id(), SGL: p.ends[1].sgl(half, 8, 1)}); err != nil {
		return err
	}
	if err := p.send(verbs.SendWR{Opcode: verbs.OpSendWithInv, SGL: p.ends[0].sgl(0, 8, 1), InvalidateRKey: key}); err != nil {
		return fmt.Errorf("SEND_WITH_INV: %w", err)
	}
	wcs, err := p.wait(p.ends[1].recvs, 1)
	if err != nil {
		return err
	}
	if wcs[0].InvalidatedRKey() != key {
		return fmt.Errorf("SEND_WITH_INV of key %#x: the receive names %#x (flags %#x)", key, wcs[0].InvalidatedRKey(), wcs[0].Flags)
	}
	return nil
}
