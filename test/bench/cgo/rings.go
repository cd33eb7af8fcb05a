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

// rings are what is measured. The requests are made once a length of list, and
// posted from C's memory again and again.
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
		q.lists[list] = newRequests(list, uint64(b.memory), uint32(b.lkey))
	}
	return q
}

func (q *rings) PostRecv(list int) error {
	recvs := q.lists[list].recvs
	for i := 0; i < rounds.Depth; i += list {
		if err := q.passive.PostRecv(&recvs[i]); err != nil {
			return err
		}
	}
	return nil
}

func (q *rings) PostSend(list int) error   { return q.post(q.lists[list].sends, list) }
func (q *rings) PostInline(list int) error { return q.post(q.lists[list].inlines, list) }

func (q *rings) post(wrs []SendWR, list int) error {
	C.bridge_hold(1)
	defer C.bridge_hold(0)
	for i := 0; i < rounds.Depth; i += list {
		if err := q.active.PostSend(&wrs[i]); err != nil {
			return err
		}
	}
	return nil
}

func (q *rings) Doorbell() error { return errno("doorbell", C.bridge_doorbell()) }

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
		if err := q.sendCQ.Arm(); err != nil {
			return err
		}
	}
	return nil
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
