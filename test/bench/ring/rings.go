package main

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/test/bench/ring/rounds"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// rings holds the measured queues, and requests that are created in advance.
type rings struct {
	*pair
	file  *held
	sends [rounds.Kinds][rounds.Depth]verbs.SendWR // by kind
	recvs [rounds.Depth]verbs.RecvWR
	wcs   []verbs.WC
}

func open(name string, addr netip.Addr, loop string) (rounds.Rings, error) {
	info, err := find(name)
	if err != nil {
		return nil, err
	}
	file, err := ioctl.Open(info.Node, 0)
	if err != nil {
		return nil, err
	}
	q := &rings{file: &held{File: file}, wcs: make([]verbs.WC, rounds.Depth)}
	info.Node = kernel.Node(q.file)
	dev, err := info.Open()
	if err != nil {
		return nil, err
	}
	switch loop {
	case "":
		q.pair, err = connect(dev, addr)
	case "efa":
		q.pair, err = loopDatagrams(dev)
	case rounds.DC:
		q.pair, err = loopDC(dev)
	default:
		q.pair, err = loopFrames(dev)
	}
	if err != nil {
		return nil, err
	}
	q.prepare()
	return q, nil
}

func find(name string) (uverbs.DeviceInfo, error) {
	infos, err := uverbs.Devices()
	for _, info := range infos {
		if info.Name == name {
			return info, nil
		}
	}
	return uverbs.DeviceInfo{}, errors.Join(fmt.Errorf("%w: %s", verbs.ErrNoDevice, name), err)
}

func (q *rings) prepare() {
	for i := range rounds.Depth {
		from, to := i*rounds.Message, (rounds.Depth+i)*rounds.Message
		for kind := range rounds.Kinds {
			wr := verbs.SendWR{WRID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled}
			if kind >= rounds.Write {
				wr.Opcode, wr.RemoteAddr, wr.RKey = verbs.OpRDMAWrite, q.mr.Addr()+uint64(to), q.mr.RKey()
			}
			if q.ah != nil {
				wr.AH, wr.RemoteQPN, wr.RemoteQKey, wr.DCKey = q.ah, q.passive.QPN(), qkey, dcKey
			}
			if kind == rounds.SendInline || kind == rounds.WriteInline {
				wr.Inline = q.mr.Bytes()[from : from+q.size]
			} else {
				wr.SGL = []verbs.SGE{q.mr.SGE(from, q.size)}
			}
			q.sends[kind][i] = wr
		}
		q.recvs[i] = verbs.RecvWR{WRID: uint64(i), SGL: []verbs.SGE{q.mr.SGE(to, rounds.Message)}}
	}
}

func (q *rings) PostRecv(list int, now rounds.Clock) (int64, error) {
	if q.srq != nil {
		return q.postSRQ(list, now)
	}
	qp, start := q.passive, now()
	for i := 0; i < rounds.Depth; i += list {
		if _, err := qp.PostRecv(q.recvs[i : i+list]); err != nil {
			return 0, err
		}
	}
	return now() - start, nil
}

func (q *rings) postSRQ(list int, now rounds.Clock) (int64, error) {
	srq, start := q.srq, now()
	for i := 0; i < rounds.Depth; i += list {
		if _, err := srq.PostRecv(q.recvs[i : i+list]); err != nil {
			return 0, err
		}
	}
	return now() - start, nil
}

func (q *rings) PostSend(kind rounds.Kind, list int, now rounds.Clock) (int64, error) {
	q.file.hold = true
	defer func() { q.file.hold = false }()
	qp, wrs, start := q.active, &q.sends[kind], now()
	for i := 0; i < rounds.Depth; i += list {
		if _, err := qp.PostSend(wrs[i : i+list]); err != nil {
			return 0, err
		}
	}
	return now() - start, nil
}

// BuildSend implements rounds.Builder.
func (q *rings) BuildSend(kind rounds.Kind, list int, now rounds.Clock) (int64, error) {
	qp, data, sge, addr, rkey := q.active, q.mr.Bytes(), q.mr.SGE(0, rounds.Message), q.mr.Addr(), q.mr.RKey()
	to := addr + rounds.Depth*rounds.Message
	ah, dctn := q.ah, q.passive.QPN()
	start := now()
	for i := 0; i < rounds.Depth; i += list {
		s := qp.Sends()
		if q.srq != nil {
			s.SetDCAddr(ah, dctn, dcKey, 0)
		}
		for k := i; k < i+list; k++ {
			at := k * rounds.Message
			sge.Addr = addr + uint64(at)
			switch kind {
			case rounds.Send:
				s.Send(uint64(k), verbs.SendSignaled, sge)
			case rounds.SendInline:
				s.SendInline(uint64(k), verbs.SendSignaled, data[at:at+rounds.Message])
			case rounds.Write:
				s.Write(uint64(k), verbs.SendSignaled, sge, to+uint64(at), rkey)
			default:
				s.WriteInline(uint64(k), verbs.SendSignaled, data[at:at+rounds.Message], to+uint64(at), rkey)
			}
		}
		if _, err := s.Ring(); err != nil {
			return 0, err
		}
	}
	return now() - start, nil
}

// Doorbell rings the doorbell that was held back, if the device's doorbells are system calls.
func (q *rings) Doorbell() error {
	if q.file.doorbell == nil {
		return nil
	}
	return q.file.Command(q.file.doorbell)
}

func (q *rings) Poll(list int, now rounds.Clock) (n int, took int64, err error) {
	return q.poll(q.sendCQ, list, now)
}

// PollRecv implements rounds.RecvPoller.
func (q *rings) PollRecv(list int, now rounds.Clock) (n int, took int64, err error) {
	return q.poll(q.recvCQ, list, now)
}

func (q *rings) poll(cq *uverbs.CQ, list int, now rounds.Clock) (n int, took int64, err error) {
	wcs, start := q.wcs[:list], now()
	for got := list; n < rounds.Depth && got == list; n += got {
		if got, err = cq.Poll(wcs); err != nil {
			return n, 0, err
		}
	}
	return n, now() - start, nil
}

func (q *rings) PollEmpty(now rounds.Clock) (int64, error) {
	cq, wcs, start := q.sendCQ, q.wcs[:16], now()
	for range rounds.Calls {
		if n, err := cq.Poll(wcs); n != 0 || err != nil {
			return 0, fmt.Errorf("%d completions on an empty CQ: %w", n, err)
		}
	}
	return now() - start, nil
}

func (q *rings) Arm(now rounds.Clock) (int64, error) {
	cq, start := q.sendCQ, now()
	for range rounds.Calls {
		if err := cq.Arm(false); err != nil {
			return 0, err
		}
	}
	return now() - start, nil
}

func (q *rings) TakeSends(atMost int) (int, error) { return q.take(q.sendCQ, atMost) }
func (q *rings) TakeRecvs(atMost int) (int, error) { return q.take(q.recvCQ, atMost) }

func (q *rings) take(cq *uverbs.CQ, atMost int) (int, error) {
	n, err := cq.Poll(q.wcs[:atMost])
	for i := range q.wcs[:n] {
		err = errors.Join(err, q.wcs[i].Err())
	}
	return n, err
}
