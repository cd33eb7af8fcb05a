package selftest

import (
	"fmt"
	"slices"
	"time"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// statuses takes n completions, and returns their statuses.
func (p *pair) statuses(cq *uverbs.CQ, n int) (all []verbs.WC, err error) {
	for len(all) < n {
		wcs := make([]verbs.WC, n-len(all))
		got, err := cq.Wait(p.ctx, wcs)
		if err != nil {
			return all, fmt.Errorf("%d of %d completions: %w", len(all), n, err)
		}
		all = append(all, wcs[:got]...)
	}
	return all, nil
}

// mistake is a request that a device must refuse.
type mistake struct {
	pairOptions
	// request prepares both ends, and returns the send that fails.
	request func(p *pair) (verbs.SendWR, error)
	want    verbs.Status // of the send
	recv    verbs.Status // of the peer's receive, unless it is 0
	// Soft RoCE has other statuses, which differ between kernels.
	soft, softRecv []verbs.Status
	erdma          []verbs.Status // of the send with eRDMA, and then of the receive
	op             verbs.Opcode   // that the device must have; 0 is SEND
}

// refused makes a mistake. It compares the statuses of the send, of the send behind it, which
// the device flushes, and of the peer's receive.
func refused(m mistake) func(*environment) (string, error) {
	return func(b *environment) (string, error) {
		if b.iwarp() {
			return "", none("iWARP does not report errors to the sender")
		}
		if m.op != 0 && !b.dev.Supports(verbs.QPTypeRC, m.op) {
			return "", none("there is no %v", m.op)
		}
		m.typ = verbs.QPTypeRC
		p, err := b.pairWith(m.pairOptions)
		if err != nil {
			return "", err
		}
		wr, err := m.request(p)
		if err != nil {
			return "", err
		}
		wr.WRID, wr.Flags = p.id(), wr.Flags|verbs.SendSignaled
		behind := verbs.SendWR{WRID: p.id(), Opcode: verbs.OpSend, SGL: p.ends[0].sgl(0, 8, 1)}
		if err := p.post(wr, behind); err != nil {
			return "", err
		}
		wcs, err := p.statuses(p.ends[0].qp.SendCQ(), 1)
		if err != nil {
			return "", err
		}
		if !b.allows(m.want, m.soft, at(m.erdma, 0), wcs[0].Status) || wcs[0].WRID != wr.WRID {
			return "", fmt.Errorf("request %d completes with %v, and request %d should with %v", wcs[0].WRID, wcs[0].Status, wr.WRID, m.want)
		}
		detail := fmt.Sprintf("%v, vendor's code %#x", wcs[0].Status, wcs[0].VendorErr)
		if wcs, err = p.statuses(p.ends[0].qp.SendCQ(), 1); err != nil {
			return detail, err
		}
		if wcs[0].Status != verbs.StatusWRFlushErr || wcs[0].WRID != behind.WRID {
			return detail, fmt.Errorf("behind it request %d completes with %v, and request %d should with %v", wcs[0].WRID, wcs[0].Status, behind.WRID, verbs.StatusWRFlushErr)
		}
		if m.recv == 0 {
			return detail, nil
		}
		recvs, err := p.statuses(p.ends[1].recvs, 1)
		if err != nil {
			return detail, err
		}
		if !b.allows(m.recv, m.softRecv, at(m.erdma, 1), recvs[0].Status) {
			return detail, fmt.Errorf("the receive completes with %v, and should with %v", recvs[0].Status, m.recv)
		}
		return fmt.Sprintf("%s; the receive %v, vendor's code %#x", detail, recvs[0].Status, recvs[0].VendorErr), nil
	}
}

// at returns the i-th status as a list, or none.
func at(all []verbs.Status, i int) []verbs.Status { return all[min(i, len(all)):min(i+1, len(all))] }

// allows reports whether a status is that of the InfiniBand specification, or with soft RoCE and
// eRDMA one of the driver.
func (b *environment) allows(want verbs.Status, soft, erdma []verbs.Status, got verbs.Status) bool {
	own := map[verbs.DriverID][]verbs.Status{verbs.DriverRXE: soft, verbs.DriverERDMA: erdma}[b.dev.Info().Driver]
	return got == want || slices.Contains(own, got)
}

// write returns a write of 8 bytes to the second end.
func (p *pair) write() verbs.SendWR {
	to := &p.ends[1]
	return verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: p.ends[0].sgl(0, 8, 1), RemoteAddr: to.mr.Addr() + half, RKey: to.mr.RKey()}
}

// sendTo posts a receive, and returns a SEND to it.
func (p *pair) sendTo(recv []verbs.SGE, size int) (verbs.SendWR, error) {
	err := p.postRecv(verbs.RecvWR{WRID: p.id(), SGL: recv})
	return verbs.SendWR{Opcode: verbs.OpSend, SGL: p.ends[0].sgl(0, size, 1)}, err
}

// another registers memory that allows less, in the protection domain of the pair.
func (p *pair) another(access verbs.Access) (*uverbs.MR, error) {
	return p.pd.AllocMR(4096, access, nil)
}

// The mistakes. Soft RoCE flushes a send with a mistake of its own memory. eRDMA knows access errors of
// either side, and of a peer that does not take a message only that.
var (
	flushed = []verbs.Status{verbs.StatusWRFlushErr, verbs.StatusLocQPOpErr}
	refusal = []verbs.Status{verbs.StatusRemOpErr}
	opError = []verbs.Status{verbs.StatusLocQPOpErr}
	here    = []verbs.Status{verbs.StatusLocAccessErr}
	there   = []verbs.Status{verbs.StatusRemAccessErr, verbs.StatusRemAccessErr}
	nowhere = []verbs.Status{verbs.StatusRetryExcErr}

	wrongKey = mistake{want: verbs.StatusRemAccessErr, request: func(p *pair) (verbs.SendWR, error) {
		wr := p.write()
		wr.RKey ^= 0xabcdef00
		return wr, nil
	}}
	behindRegion = mistake{want: verbs.StatusRemAccessErr, request: func(p *pair) (verbs.SendWR, error) {
		wr := p.write()
		wr.RemoteAddr = p.ends[1].mr.Addr() + uint64(p.ends[1].mr.Len()) - 7
		return wr, nil
	}}
	readRefused = mistake{want: verbs.StatusRemAccessErr, op: verbs.OpRDMARead, request: func(p *pair) (verbs.SendWR, error) {
		mr, err := p.another(verbs.AccessLocalWrite | verbs.AccessRemoteWrite)
		if err != nil {
			return verbs.SendWR{}, err
		}
		return verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: p.ends[0].sgl(half, 8, 1), RemoteAddr: mr.Addr(), RKey: mr.RKey()}, nil
	}}
	writeRefused = mistake{want: verbs.StatusRemAccessErr, request: func(p *pair) (verbs.SendWR, error) {
		mr, err := p.another(verbs.AccessLocalWrite | verbs.AccessRemoteRead)
		if err != nil {
			return verbs.SendWR{}, err
		}
		wr := p.write()
		wr.RemoteAddr, wr.RKey = mr.Addr(), mr.RKey()
		return wr, nil
	}}
	wrongLocalKey = mistake{want: verbs.StatusLocProtErr, soft: flushed, erdma: here, request: func(p *pair) (verbs.SendWR, error) {
		wr := p.write()
		wr.SGL[0].LKey ^= 0xabcdef00
		return wr, nil
	}}
	behindLocal = mistake{want: verbs.StatusLocProtErr, soft: flushed, erdma: here, request: func(p *pair) (verbs.SendWR, error) {
		wr := p.write()
		wr.SGL[0].Addr = p.ends[0].mr.Addr() + uint64(p.ends[0].mr.Len()) - 7
		return wr, nil
	}}
	shortReceive = mistake{want: verbs.StatusRemInvReqErr, recv: verbs.StatusLocLenErr,
		soft: refusal, softRecv: opError, erdma: there,
		request: func(p *pair) (verbs.SendWR, error) { return p.sendTo(p.ends[1].sgl(half, 15, 1), 16) }}
	lockedReceive = mistake{want: verbs.StatusRemOpErr, recv: verbs.StatusLocProtErr,
		soft: refusal, softRecv: opError, erdma: there,
		request: func(p *pair) (verbs.SendWR, error) {
			mr, err := p.another(verbs.AccessRemoteRead)
			if err != nil {
				return verbs.SendWR{}, err
			}
			return p.sendTo([]verbs.SGE{mr.SGE(0, 16)}, 16)
		}}
	noReceive = mistake{want: verbs.StatusRNRRetryExcErr, erdma: nowhere,
		pairOptions: pairOptions{tune: func(a *verbs.QPAttr) { a.RNRRetry, a.RNRTimer = 2, 10*time.Microsecond }},
		request: func(p *pair) (verbs.SendWR, error) {
			return verbs.SendWR{Opcode: verbs.OpSend, SGL: p.ends[0].sgl(0, 8, 1)}, nil
		}}
	noAnswer = mistake{want: verbs.StatusRetryExcErr,
		pairOptions: pairOptions{tune: func(a *verbs.QPAttr) { a.RetryCnt, a.AckTimeout = 2, time.Millisecond }},
		request: func(p *pair) (verbs.SendWR, error) {
			return p.write(), p.ends[1].qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState)
		}}
	oddAtomic = mistake{want: verbs.StatusRemInvReqErr, erdma: there, op: verbs.OpFetchAdd, request: func(p *pair) (verbs.SendWR, error) {
		if p.attr.AtomicCap == verbs.AtomicNone {
			return verbs.SendWR{}, none("the device has no atomic operations")
		}
		wr := p.write()
		wr.Opcode, wr.SGL, wr.RemoteAddr = verbs.OpFetchAdd, p.ends[0].sgl(half, 8, 1), wr.RemoteAddr+4
		return wr, nil
	}}
	behindWindow = mistake{want: verbs.StatusRemAccessErr, op: verbs.OpBindMW, request: func(p *pair) (verbs.SendWR, error) {
		if p.dev.Info().Driver == verbs.DriverRXE {
			return verbs.SendWR{}, none("soft RoCE checks the bounds of the region, and not those of the window")
		}
		key, err := p.bound()
		wr := p.write()
		wr.RKey, wr.RemoteAddr = key, wr.RemoteAddr+windowed-7
		return wr, err
	}}
	endedWindow = mistake{want: verbs.StatusRemAccessErr, op: verbs.OpLocalInv, request: func(p *pair) (verbs.SendWR, error) {
		key, err := p.bound()
		if err == nil {
			err = p.endWindow(key)
		}
		wr := p.write()
		wr.RKey = key
		return wr, err
	}}
	lockedBinding = mistake{want: verbs.StatusMWBindErr, soft: flushed, op: verbs.OpBindMW, request: func(p *pair) (verbs.SendWR, error) {
		mr, err := p.another(verbs.AccessLocalWrite | verbs.AccessRemoteWrite)
		if err != nil {
			return verbs.SendWR{}, err
		}
		mw, err := p.pd.AllocMW(verbs.MWType2)
		if err != nil {
			return verbs.SendWR{}, err
		}
		return verbs.SendWR{Opcode: verbs.OpBindMW, Bind: &verbs.BindMW{MW: mw, RKey: uverbs.IncRKey(mw.RKey()), MR: mr, Addr: mr.Addr(), Length: 64,
			Access: verbs.AccessRemoteWrite}}, nil
	}}
)

// wrongQKey sends a datagram that the peer must drop, and then one that takes the receive.
func wrongQKey(b *environment) (string, error) {
	p, err := b.pair(verbs.QPTypeUD)
	if err != nil {
		return "", err
	}
	from, to := &p.ends[0], &p.ends[1]
	const wrong, right, times = 100, 64, 10
	for range times {
		if err := p.postRecv(verbs.RecvWR{WRID: p.id(), SGL: to.sgl(half-grh, wrong+grh, 1)}); err != nil {
			return "", err
		}
		if err := p.send(verbs.SendWR{Opcode: verbs.OpSend, SGL: from.sgl(0, wrong, 1), RemoteQKey: qkey + 1}); err != nil {
			return "", err
		}
		p.fill(from.source(right))
		if err := p.send(verbs.SendWR{Opcode: verbs.OpSend, SGL: from.sgl(0, right, 1)}); err != nil {
			return "", err
		}
		wcs, err := p.wait(to.recvs, 1)
		if err != nil {
			return "", err
		}
		if wcs[0].ByteLen != right+grh {
			return "", fmt.Errorf("the datagram of %d bytes with a wrong Q_Key came, and should not (%d bytes came)", wrong, wcs[0].ByteLen-grh)
		}
		if err := p.same("the datagram behind", to.target(right), from.source(right)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d datagrams dropped, and the %d behind them received", times, times), nil
}

// reuseAfterFlush flushes both queues and uses the queue pairs again.
func reuseAfterFlush(b *environment) (string, error) {
	p, err := b.pair(verbs.QPTypeRC)
	if err != nil {
		return "", err
	}
	if err := p.message(message{op: verbs.OpSend, size: 100}); err != nil {
		return "", err
	}
	const waiting = 5
	for range waiting {
		if err := p.postRecv(verbs.RecvWR{WRID: p.id(), SGL: p.ends[1].sgl(half, 8, 1)}); err != nil {
			return "", err
		}
	}
	to := p.ends[1].qp
	if err := to.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState); err != nil {
		return "", err
	}
	wcs, err := p.statuses(p.ends[1].recvs, waiting)
	if err != nil {
		return "", err
	}
	for i := range wcs {
		if wcs[i].Status != verbs.StatusWRFlushErr {
			return "", fmt.Errorf("flushed receive %d: %v", i, wcs[i].Status)
		}
	}
	if b.iwarp() {
		return fmt.Sprintf("%d receives flushed; iWARP has no second life", waiting), nil
	}
	for i := range p.ends {
		if err := p.ends[i].qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState); err != nil {
			return "", err
		}
	}
	if err := p.connect(); err != nil {
		return "", err
	}
	for range 3 * depth {
		if err := p.message(message{op: verbs.OpSend, size: 100}); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d receives flushed, %d messages in the second life", waiting, 3*depth), nil
}
