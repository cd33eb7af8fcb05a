// Package giveup implements the message with which an end of a test that gives up
// reports the reason to the other end, over the connection on which they exchanged their
// addresses. C's programs do not know it: over TCP they see a message that is too short.
package giveup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Size is the length of a give-up message in bytes. It is less than the 52 bytes of the shortest
// address that C's programs read.
const Size = 50

// mark begins a give-up message, and no other message of perftest or pingpong.
const mark = "rdmalink: "

// Limit bounds the time that an end that gives up waits for the peer to receive the reason.
const Limit = time.Second

// Error is the reason for which the peer gave up.
type Error struct{ Why string }

func (e *Error) Error() string { return fmt.Sprintf("the peer gave up: %q", e.Why) }

// Is reports whether err is or wraps the give-up message of a peer.
func Is(err error) bool { return errors.As(err, new(*Error)) }

// Message returns the give-up message of an end that gives up. If the reason is too long, its end is
// kept, because errors end with their cause and remedy. The local end prints all of it.
func Message(why error) []byte {
	text := why.Error()
	if errors.Is(why, context.Canceled) {
		text = "interrupted"
	}
	if room := Size - len(mark); len(text) > room {
		text = "..." + text[len(text)-room+len("..."):]
	}
	frame := make([]byte, Size)
	copy(frame[copy(frame, mark):], text)
	return frame
}

// Parse returns the Error if b begins with a give-up message, else nil.
func Parse(b []byte) error {
	if len(b) < Size || !bytes.HasPrefix(b, []byte(mark)) {
		return nil
	}
	return &Error{string(bytes.TrimRight(b[len(mark):Size], "\x00"))}
}

// Find returns the Error if there is a give-up message in b, behind other messages.
func Find(b []byte) error {
	at := bytes.Index(b, []byte(mark))
	if at < 0 {
		return nil
	}
	return Parse(b[at:])
}

// Complete returns the Error if got is a give-up message or its beginning, the rest of
// which is read; else nil.
func Complete(got []byte, rest io.Reader) error {
	n := min(len(got), len(mark))
	if n == 0 || string(got[:n]) != mark[:n] {
		return nil
	}
	frame := make([]byte, Size)
	if n = copy(frame, got); n < Size {
		if _, err := io.ReadFull(rest, frame[n:]); err != nil {
			return nil
		}
	}
	return Parse(frame)
}

// Unread returns the Error if a give-up message is among the messages that the peer sent before it
// closed the connection, else nil. It is for an end that could not send.
func Unread(conn io.Reader) error {
	const most = 4096 // bytes, more than an end sends without an answer
	said, _ := io.ReadAll(io.LimitReader(conn, most))
	return Find(said)
}

// Say sends the peer the reason for which this end gives up, unless the peer has given up
// itself. It returns when the peer has closed the connection, or after Limit. The caller must
// then close the connection. Say reads all data first, because closing a connection with unread
// data resets it, and a reset drops the data that is on its way to the peer.
func Say(conn net.Conn, why error) {
	if Is(why) {
		return
	}
	_ = conn.SetDeadline(time.Now().Add(Limit))
	if _, err := conn.Write(Message(why)); err != nil {
		return
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, conn)
}
