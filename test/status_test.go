//go:build vm

package test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

// failure is a work request that ends the connection. The client posts it as
// number 1. Each end then sees its completions, sends first, and asynchronous
// events as told; 6.1 and 6.12 agree in all of them.
type failure struct {
	name                 string
	client, server       setup
	post                 func(c, s *end) uverbs.SendWR
	initiator, responder string
}

// TestFailureStatus pins what each kind of failure looks like over siw. An
// initiator learns little: iWARP acknowledges nothing, so a SEND or a WRITE that
// the responder refuses was a success. All failures end the connection.
func TestFailureStatus(t *testing.T) {
	notTwice(t)
	fabric(t)
	for _, test := range failures() {
		t.Run(test.name, func(t *testing.T) {
			noLeak(t)
			c, s := connect(t, test.client, test.server)
			events := watch(t, c)
			wr := test.post(c, s)
			wr.WRID, wr.Flags = 1, uverbs.SendSignaled
			c.post(wr)
			want := map[*end]string{c: test.initiator, s: test.responder}
			for _, e := range []*end{c, s} {
				if err := e.ended(); !errors.Is(err, rdmacm.ErrDisconnected) {
					t.Errorf("the connection ended with %v", err)
				}
				all := append(e.flushed(), events.of(e, want[e])...)
				if diff := cmp.Diff(want[e], strings.Join(all, ", ")); diff != "" {
					t.Errorf("initiator %v (-want +got):\n%s", e == c, diff)
				}
			}
		})
	}
}

const (
	flushedRecv = "1000 RECV work request flushed"
	mark        = 9
)

func failures() []failure {
	one, longer := setup{recvs: 1}, recvSize+1
	readOnly := setup{recvs: 1, access: uverbs.AccessLocalWrite | uverbs.AccessRemoteRead}
	wrongRKey := func(wr *uverbs.SendWR) { wr.RKey ^= 0x5500 }
	beyond := func(wr *uverbs.SendWR) { wr.RemoteAddr += memorySize - 4 }
	wrongLKey := func(wr *uverbs.SendWR) { wr.SGL[0].LKey ^= 0x5500 }
	tooFar := func(wr *uverbs.SendWR) { wr.SGL[0].Addr += memorySize - sendFrom - 4 }
	return []failure{
		{"SEND, no receive posted", setup{}, setup{}, wrong(uverbs.OpSend, 8, nil),
			"1 SEND success", ""},
		{"SEND, receive too short", setup{}, one, wrong(uverbs.OpSend, longer, nil),
			"1 SEND success", "1000 RECV local length error, QP fatal error"},
		{"SEND, receive not writable", setup{}, setup{recvs: 1, access: noAccess}, wrong(uverbs.OpSend, 8, nil),
			"1 SEND success", "1000 RECV general error, QP access error"},
		{"WRITE, remote key", setup{}, one, wrong(uverbs.OpRDMAWrite, 8, wrongRKey),
			"1 RDMA_WRITE success", flushedRecv},
		{"READ, remote key", setup{}, one, wrong(uverbs.OpRDMARead, 8, wrongRKey),
			"1 RDMA_READ work request flushed", flushedRecv + ", QP request error"},
		{"WRITE, remote range", setup{}, one, wrong(uverbs.OpRDMAWrite, 8, beyond),
			"1 RDMA_WRITE success", flushedRecv + ", QP access error"},
		{"READ, remote range", setup{}, one, wrong(uverbs.OpRDMARead, 8, beyond),
			"1 RDMA_READ work request flushed", flushedRecv + ", QP request error"},
		{"WRITE, remote access", setup{}, readOnly, wrong(uverbs.OpRDMAWrite, 8, nil),
			"1 RDMA_WRITE success", flushedRecv + ", QP access error"},
		{"SEND, local key", setup{}, one, wrong(uverbs.OpSend, 8, wrongLKey),
			"1 SEND local QP operation error, QP fatal error", flushedRecv},
		{"WRITE, local key", setup{}, one, wrong(uverbs.OpRDMAWrite, 8, wrongLKey),
			"1 RDMA_WRITE local QP operation error, QP fatal error", flushedRecv},
		{"READ, local key", setup{}, one, wrong(uverbs.OpRDMARead, 8, wrongLKey),
			"1 RDMA_READ local protection error, QP access error", flushedRecv},
		{"SEND, local range", setup{}, one, wrong(uverbs.OpSend, 8, tooFar),
			"1 SEND local QP operation error, QP fatal error", flushedRecv},
		{"WRITE, local range", setup{}, one, wrong(uverbs.OpRDMAWrite, 8, tooFar),
			"1 RDMA_WRITE local QP operation error, QP fatal error", flushedRecv},
		{"READ, local range", setup{}, one, wrong(uverbs.OpRDMARead, 8, tooFar),
			"1 RDMA_READ local protection error, QP access error", flushedRecv},
		{"READ, local access", setup{access: noAccess}, one, wrong(uverbs.OpRDMARead, 8, nil),
			"1 RDMA_READ local protection error, QP access error", flushedRecv},
	}
}

// wrong is a request of n bytes that is right until change makes it wrong.
func wrong(op uverbs.Opcode, n int, change func(*uverbs.SendWR)) func(c, s *end) uverbs.SendWR {
	return func(c, s *end) uverbs.SendWR {
		wr := uverbs.SendWR{Opcode: op, SGL: []uverbs.SGE{c.mr.SGE(sendFrom, n)}, RemoteAddr: s.mr.Addr(), RKey: s.mr.RKey()}
		if change != nil {
			change(&wr)
		}
		return wr
	}
}

// flushed posts work after the end, which has to come back flushed and behind
// all else, and returns all else.
func (e *end) flushed() []string {
	e.t.Helper()
	e.post(uverbs.SendWR{WRID: mark, Opcode: uverbs.OpSend, SGL: []uverbs.SGE{e.mr.SGE(0, 1)}})
	if _, err := e.QP().PostRecv([]uverbs.RecvWR{{WRID: mark}}); err != nil {
		e.t.Fatal(err)
	}
	return append(e.upToMark(e.SendCQ()), e.upToMark(e.RecvCQ())...)
}

func (e *end) upToMark(cq *uverbs.CQ) (all []string) {
	e.t.Helper()
	for {
		wc := e.next(cq)
		if wc.WRID != mark {
			all = append(all, brief(wc))
			continue
		}
		if wc.Status != uverbs.StatusWRFlushErr {
			e.t.Errorf("posted after the end: %s", brief(wc))
		}
		return all
	}
}

// asyncLog notes the asynchronous events of the device that both ends share.
type asyncLog struct {
	all chan uverbs.AsyncEvent
}

func watch(t *testing.T, e *end) *asyncLog {
	ctx, cancel := context.WithCancel(t.Context())
	log := &asyncLog{make(chan uverbs.AsyncEvent, 100)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ev, err := e.Device().AsyncEvent(ctx); err == nil; ev, err = e.Device().AsyncEvent(ctx) {
			log.all <- ev
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return log
}

// of returns the events of an end's QP. It waits for one if one is wanted, and else a
// moment for one that should not come: what comes later is missed.
func (l *asyncLog) of(e *end, want string) (names []string) {
	wait := 20 * time.Millisecond
	if strings.Contains(want, ", QP") {
		wait = patience
	}
	var others []uverbs.AsyncEvent
	defer func() {
		for _, ev := range others {
			l.all <- ev
		}
	}()
	for {
		select {
		case ev := <-l.all:
			if ev.QP != e.QP() {
				others = append(others, ev)
				continue
			}
			names, wait = append(names, ev.Type.String()), 20*time.Millisecond
		case <-time.After(wait):
			slices.Sort(names)
			return names
		}
	}
}
