package main

/*
#include "bridge.h"
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"net/netip"
	"unsafe"

	"github.com/goverbs/goverbs/test/bench/ring/rounds"
)

// rings holds the measured queues. It creates the requests once per list length in C memory, and posts
// them repeatedly.
type rings struct {
	active, passive QP
	sendCQ, recvCQ  CQ
	lists           map[int]*requests
	wcs             [rounds.Depth]WC
}

func open(dev string, addr netip.Addr) rounds.Rings {
	name, address := C.CString(dev), C.CString(addr.String())
	defer C.free(unsafe.Pointer(name))
	defer C.free(unsafe.Pointer(address))
	var b C.struct_bridge
	C.bridge_connect(&b, name, address)
	q := &rings{active: QP{b.active}, passive: QP{b.passive}, sendCQ: CQ{b.send_cq}, recvCQ: CQ{b.recv_cq},
		lists: make(map[int]*requests)}
	for _, list := range rounds.Lists {
		q.lists[list] = newRequests(list, uint64(b.memory), uint32(b.lkey), uint32(b.rkey))
	}
	return q
}

func (q *rings) PostRecv(list int, now rounds.Clock) (int64, error) {
	qp, recvs, start := q.passive, q.lists[list].recvs, now()
	for i := 0; i < rounds.Depth; i += list {
		if err := qp.PostRecv(&recvs[i]); err != nil {
			return 0, err
		}
	}
	return now() - start, nil
}

func (q *rings) PostSend(kind rounds.Kind, list int, now rounds.Clock) (int64, error) {
	C.bridge_hold(1)
	defer C.bridge_hold(0)
	qp, wrs, start := q.active, q.lists[list].sends[kind], now()
	for i := 0; i < rounds.Depth; i += list {
		if err := qp.PostSend(&wrs[i]); err != nil {
			return 0, err
		}
	}
	return now() - start, nil
}

func (q *rings) Doorbell() error { return errno("doorbell", C.bridge_doorbell()) }

func (q *rings) Poll(list int, now rounds.Clock) (n int, took int64, err error) {
	cq, wcs, start := q.sendCQ, q.wcs[:list], now()
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
		if err := cq.Arm(); err != nil {
			return 0, err
		}
	}
	return now() - start, nil
}

func (q *rings) TakeSends(atMost int) (int, error) { return q.take(q.sendCQ, atMost) }
func (q *rings) TakeRecvs(atMost int) (int, error) { return q.take(q.recvCQ, atMost) }

func (q *rings) take(cq CQ, atMost int) (int, error) {
	n, err := cq.Poll(q.wcs[:atMost])
	for _, wc := range q.wcs[:n] {
		if wc.status != 0 {
			return n, fmt.Errorf("completion with status %d", wc.status)
		}
	}
	return n, err
}
