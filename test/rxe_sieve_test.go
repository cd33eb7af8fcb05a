//go:build vm

package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// unreliable sends n messages into as many receives, so that the wire alone loses
// any.
func (l *lossy) unreliable(t *testing.T, typ verbs.QPType, n int, sizes []int) {
	const more = 1000 // to mark the end of those, until one arrives
	s := &sieve{lossy: l, sizes: sizes, seen: make(map[int]bool)}
	if typ == verbs.QPTypeUD {
		s.front = uverbs.GRHSize
	}
	s.slot = s.front + slices.Max(sizes)
	s.from, s.to = l.pair(t, typ, 0, rxeSetup{size: (n + more) * s.slot, cqe: n + more,
		cap: verbs.QPCap{MaxSendWR: sendDepth, MaxRecvWR: uint32(n + more)}})
	for i := range n + more {
		s.to.postRecv(uint64(i), i*s.slot, s.slot)
	}
	lose(t, "gvnear", l.percent)
	s.send(t, n)
	for s.last < n {
		s.send(t, 1)
		s.look(t)
	}
	lost := s.sent - len(s.seen)
	t.Logf("lost %d of %d messages", lost, s.sent)
	if lost == 0 || len(s.seen) < n/10 {
		t.Errorf("%d of %d messages arrived", len(s.seen), s.sent)
	}
	l.heal(t, "gvnear")
	s.send(t, 1) // UC may drop one more message where one was cut off
	whole := s.sent
	s.send(t, 10)
	s.until(t, func() bool { return s.has(whole, s.sent) })
}

// sieve is a pair of ends on a lossy wire: one receives some of the messages that the other sends.
type sieve struct {
	*lossy
	from, to    *rxeEnd
	sizes       []int
	front, slot int // bytes before a message; of a receive
	sent, last  int // messages sent; the newest that arrived
	seen        map[int]bool
}

const sendDepth = 32

func (s *sieve) send(t *testing.T, n int) {
	t.Helper()
	for end := s.sent + n; s.sent < end; {
		var batch []verbs.SendWR
		for i := s.sent; i < min(s.sent+sendDepth, end); i++ {
			batch = append(batch, s.message(s.from, i, s.sizes))
		}
		s.from.post(batch...)
		for range batch {
			s.from.sent(fmt.Sprintf("%d SEND success", s.sent))
			s.sent++
		}
	}
}

// until receives until enough has arrived.
func (s *sieve) until(t *testing.T, enough func() bool) {
	t.Helper()
	for begin := time.Now(); !enough(); s.look(t) {
		if time.Since(begin) > patience {
			t.Fatalf("%d of %d messages arrived, and no more", len(s.seen), s.sent)
		}
	}
}

// has reports whether the messages from one number to before another have arrived.
func (s *sieve) has(from, to int) bool {
	for i := from; i < to; i++ {
		if !s.seen[i] {
			return false
		}
	}
	return true
}

// look receives until nothing has arrived for a while.
func (s *sieve) look(t *testing.T) {
	t.Helper()
	wcs := make([]verbs.WC, 64)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		n, err := s.to.recvCQ.Wait(ctx, wcs)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		for _, wc := range wcs[:n] {
			s.check(t, wc)
		}
	}
}

// check holds a message to be whole, and new.
func (s *sieve) check(t *testing.T, wc verbs.WC) {
	t.Helper()
	i := int(wc.Imm)
	want := s.content(i, s.sizes)
	if wc.Status != verbs.StatusSuccess || int(wc.ByteLen) != s.front+len(want) || s.seen[i] {
		t.Fatalf("message %d of %d bytes, seen before: %v: %+v", i, len(want), s.seen[i], wc)
	}
	if !bytes.Equal(s.to.mr.Bytes()[int(wc.WRID)*s.slot+s.front:][:len(want)], want) {
		t.Fatalf("message %d of %d bytes: not what was sent", i, len(want))
	}
	s.seen[i], s.last = true, max(s.last, i)
}
