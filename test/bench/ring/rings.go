package main

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/test/bench/ring/rounds"
	"github.com/goverbs/goverbs/uverbs"
)

// rings are what is measured, with the requests made beforehand.
type rings struct {
	*pair
	file           *held
	sends, inlines [rounds.Depth]uverbs.SendWR
	recvs          [rounds.Depth]uverbs.RecvWR
	wcs            []uverbs.WC
}

func open(name string, addr netip.Addr) (rounds.Rings, error) {
	info, err := find(name)
	if err != nil {
		return nil, err
	}
	file, err := ioctl.Open(info.Node, 0)
	if err != nil {
		return nil, err
	}
	q := &rings{file: &held{File: file}, wcs: make([]uverbs.WC, rounds.Depth)}
	dev, err := uverbs.NewDevice(info, q.file)
	if err != nil {
		return nil, err
	}
	if q.pair, err = connect(dev, addr); err != nil {
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
	return uverbs.DeviceInfo{}, errors.Join(fmt.Errorf("%w: %s", uverbs.ErrNoDevice, name), err)
}

func (q *rings) prepare() {
	for i := range rounds.Depth {
		from, to := i*rounds.Message, (rounds.Depth+i)*rounds.Message
		q.sends[i] = uverbs.SendWR{WRID: uint64(i), Opcode: uverbs.OpSend, Flags: uverbs.SendSignaled,
			SGL: []uverbs.SGE{q.mr.SGE(from, rounds.Message)}}
		q.inlines[i] = uverbs.SendWR{WRID: uint64(i), Opcode: uverbs.OpSend, Flags: uverbs.SendSignaled,
			Inline: q.mr.Bytes()[from : from+rounds.Message]}
		q.recvs[i] = uverbs.RecvWR{WRID: uint64(i), SGL: []uverbs.SGE{q.mr.SGE(to, rounds.Message)}}
	}
}

func (q *rings) PostRecv(list int) error {
	for i := 0; i < rounds.Depth; i += list {
		if _, err := q.passive.PostRecv(q.recvs[i : i+list]); err != nil {
			return err
		}
	}
	return nil
}

func (q *rings) PostSend(list int) error   { return q.post(&q.sends, list) }
func (q *rings) PostInline(list int) error { return q.post(&q.inlines, list) }

func (q *rings) post(wrs *[rounds.Depth]uverbs.SendWR, list int) error {
	q.file.hold = true
	defer func() { q.file.hold = false }()
	for i := 0; i < rounds.Depth; i += list {
		if _, err := q.active.PostSend(wrs[i : i+list]); err != nil {
			return err
		}
	}
	return nil
}

func (q *rings) Doorbell() error { return q.file.Command(q.file.doorbell) }

func (q *rings) Poll(list int) (n int, err error) {
	for got := list; n < rounds.Depth && got == list; n += got {
		if got, err = q.sendCQ.Poll(q.wcs[:list]); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (q *rings) PollEmpty() error {
	for range rounds.Calls {
		if n, err := q.sendCQ.Poll(q.wcs[:16]); n != 0 || err != nil {
			return fmt.Errorf("%d completions on an empty CQ: %w", n, err)
		}
	}
	return nil
}

func (q *rings) Arm() error {
	for range rounds.Calls {
		if err := q.sendCQ.Arm(false); err != nil {
			return err
		}
	}
	return nil
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
