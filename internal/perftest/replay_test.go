package perftest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
)

// TestReplay replaces each end of recorded tests of perftest's programs by a session. With
// the same figures it must send the same bytes, and decode the messages of the other end.
func TestReplay(t *testing.T) {
	for _, tr := range readTranscripts(t) {
		for _, role := range []Role{Client, Server} {
			if tr.system(t, role).Version == "6.29" {
				continue // a session has no version for which it would send these structs to the other end
			}
			t.Run(fmt.Sprintf("%s as %d", tr.program, role), func(t *testing.T) { replay(t, tr, role) })
		}
	}
}

func replay(t *testing.T, tr *transcript, role Role) {
	ours, theirs := net.Pipe()
	played := make(chan error, 1)
	go func() {
		defer theirs.Close()
		played <- tr.play(theirs, 1-role)
	}()
	var s *Session
	if tr.test.CM {
		s = OverCM(pipeMessenger{ours, tr.sizesOf(1 - role)}, "the peer", role, tr.test)
	} else {
		s = OverTCP(ours, role, tr.test)
	}
	if err := tr.act(t.Context(), t, s, role); err != nil {
		t.Error(err)
	}
	ours.Close() // the end of the session's messages
	if err := <-played; err != nil {
		t.Error(err)
	}
}

// act runs the session of an end.
func (tr *transcript) act(ctx context.Context, t testing.TB, s *Session, role Role) error {
	peer, reports := 1-role, tr.reports(role)
	agreed, err := s.Greet(ctx, tr.system(t, role))
	if err != nil {
		return err
	}
	if agreed != tr.system(t, peer) {
		t.Errorf("agreed on %+v", agreed)
	}
	for range 2 {
		if tr.test.CM {
			if err := s.SyncCM(ctx); err != nil {
				return err
			}
		}
	}
	met, err := s.Meet(ctx, tr.endpoints(t, role))
	if err != nil {
		return err
	}
	if !slices.Equal(met, tr.endpoints(t, peer)) {
		t.Errorf("met %+v", met)
	}
	if err := s.Ready(ctx); err != nil {
		return err
	}
	var got []Report
	own := func() (r Report) {
		if len(reports) > len(got) {
			r = reports[len(got)]
		}
		return r
	}
	hear := func(r *Report, err error) error {
		if r != nil {
			got = append(got, *r)
		}
		return err
	}
	for range tr.sizes {
		if role == Server && tr.test.ServerIdle() {
			break
		}
		if err := s.Begin(ctx); err != nil {
			return err
		}
		if err := hear(s.End(ctx, own())); err != nil {
			return err
		}
	}
	err = hear(s.Finish(ctx, own()))
	if !slices.EqualFunc(got, tr.reports(peer), func(a, b Report) bool { return a.words() == b.words() }) {
		t.Errorf("heard %v", got)
	}
	return err
}

// play is the other end: it sends its lines, and expects those of the session.
func (tr *transcript) play(conn net.Conn, as Role) error {
	for _, l := range tr.lines {
		if l.from == as {
			text := withoutDone(l.text)
			if string(text) == "done\x00" {
				continue
			}
			if _, err := conn.Write(text); err != nil {
				return fmt.Errorf("say %q: %w", text, err)
			}
			continue
		}
		heard := make([]byte, len(l.text))
		if n, err := io.ReadFull(conn, heard); err != nil {
			return fmt.Errorf("heard %q, want %q: %w", heard[:n], l.text, err)
		}
		if !bytes.Equal(heard, withoutPadding(l.text, tr.test.CM)) {
			return fmt.Errorf("heard %q, want %q", heard, l.text)
		}
	}
	if rest, err := io.ReadAll(conn); len(rest) > 0 || err != nil {
		return fmt.Errorf("%q behind the transcript, %v", rest, err)
	}
	return nil
}

// withoutPadding clears the padding behind the struct's rkey, which C does not initialize.
func withoutPadding(text []byte, cm bool) []byte {
	if text = bytes.Clone(text); cm && len(text) >= structSize {
		clear(text[20:24])
	}
	return text
}

// pipeMessenger has messages on a pipe, one a write and one a read.
type pipeMessenger struct {
	net.Conn
	lengths *[]int // of those to receive
}

func (tr *transcript) sizesOf(from Role) *[]int {
	var all []int
	for _, l := range tr.lines {
		if l.from == from {
			all = append(all, len(l.text))
		}
	}
	return &all
}

func (p pipeMessenger) Send(_ context.Context, message []byte) error {
	_, err := p.Write(message)
	return err
}

func (p pipeMessenger) Receive(_ context.Context, buf []byte) (int, error) {
	if len(buf) != MaxMessage || len(*p.lengths) == 0 {
		return 0, io.ErrShortBuffer
	}
	n := (*p.lengths)[0]
	*p.lengths = (*p.lengths)[1:]
	return io.ReadFull(p, buf[:n])
}
