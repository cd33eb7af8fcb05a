package giveup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// TestMessage checks that a reason arrives, as far as there is room for it.
func TestMessage(t *testing.T) {
	for want, why := range map[string]error{
		"no device":                         errors.New("no device"),
		"":                                  errors.New(""),
		strings.Repeat("x", Size-len(mark)): errors.New(strings.Repeat("x", Size-len(mark))),
		"..." + strings.Repeat("x", Size-len(mark)-3): errors.New("y" + strings.Repeat("x", Size-len(mark))),
		"interrupted": fmt.Errorf("receive: %w", context.Canceled),
	} {
		frame := Message(why)
		var got *Error
		if err := Parse(frame); len(frame) != Size || !errors.As(err, &got) || got.Why != want || !Is(fmt.Errorf("it: %w", err)) {
			t.Errorf("%q: %v, want %q", frame, err, want)
		}
	}
}

// TestFind finds a complete give-up message behind other messages.
func TestFind(t *testing.T) {
	frame := Message(errors.New("why"))
	for before, want := range map[string]bool{"": true, "6.06": true, "rdmalin": true} {
		if err := Find(append([]byte(before), frame...)); Is(err) != want {
			t.Errorf("%q: %v", before, err)
		}
	}
	for _, b := range [][]byte{nil, []byte("0000:0000"), frame[:Size-1], []byte(strings.Repeat("x", Size))} {
		if err := Find(b); err != nil {
			t.Errorf("%q: %v", b, err)
		}
	}
}

// TestComplete checks that a part of a give-up message is recognized and read to its end, and that
// nothing else is.
func TestComplete(t *testing.T) {
	frame := Message(errors.New("why"))
	for n := 1; n <= Size; n++ {
		rest := bytes.NewReader(frame[n:])
		if err := Complete(frame[:n], rest); !Is(err) || rest.Len() > 0 {
			t.Errorf("%d bytes of it: %v, %d left", n, err, rest.Len())
		}
	}
	for _, got := range []string{"", "6.06", "rx", "rdmalink! "} {
		rest := bytes.NewReader(frame)
		if err := Complete([]byte(got), rest); err != nil || rest.Len() < Size {
			t.Errorf("%q: %v, %d left", got, err, rest.Len())
		}
	}
	for _, got := range []string{"r", "rdmalink: in"} {
		if err := Complete([]byte(got), strings.NewReader("x")); err != nil {
			t.Errorf("%q: %v", got, err)
		}
	}
}

// pair is a TCP connection.
func pair(t *testing.T) (ours, peers *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close(); accepted.Close() })
	return dialled.(*net.TCPConn), accepted.(*net.TCPConn)
}

// TestSay checks that an orderly end follows the give-up message, not a reset, although the end
// that gives up has unread data.
func TestSay(t *testing.T) {
	ours, peers := pair(t)
	if _, err := peers.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		Say(ours, context.Canceled)
		ours.Close()
	}()
	got, err := io.ReadAll(peers)
	if err != nil || !bytes.Equal(got, Message(context.Canceled)) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := peers.Write(make([]byte, 1000)); err != nil {
		t.Errorf("the end that gave up does not wait for the peer: %v", err)
	}
	peers.Close()
	<-closed
}

// TestSayNothing checks that no give-up message is sent to a peer that has given up.
func TestSayNothing(t *testing.T) {
	ours, peers := pair(t)
	Say(ours, fmt.Errorf("it: %w", &Error{"why"}))
	ours.Close()
	if got, err := io.ReadAll(peers); len(got) > 0 || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestSayToNobody checks that an end does not wait forever for a peer that does not read.
func TestSayToNobody(t *testing.T) {
	ours, _ := pair(t)
	Say(ours, context.Canceled)
}

// TestUnread checks that an end that can no longer send still finds the reason.
func TestUnread(t *testing.T) {
	ours, peers := pair(t)
	_, err := peers.Write(append([]byte("6.06"), Message(errors.New("why"))...))
	if err := errors.Join(err, peers.SetLinger(0), peers.Close()); err != nil { // a reset
		t.Fatal(err)
	}
	if _, err := ours.Write([]byte("x")); err == nil {
		t.Fatal("there was no reset")
	}
	if err := Unread(ours); !Is(err) {
		t.Error(err)
	}
}
