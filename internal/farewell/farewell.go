// Package farewell is how an end of a test that gives up tells the other why,
// over the connection on which both told their addresses. The programs of C know
// nothing of it: over TCP it is a message that is too short for them.
package farewell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Size is the length of a farewell in bytes. The shortest address that a program
// of C reads is longer, of 52 bytes.
const Size = 50

// mark begins a farewell, and no other message of perftest or pingpong.
const mark = "rdmalink: "

// Limit is how long an end that gives up waits for the peer to hear why.
const Limit = time.Second

// Error is why the peer gave up.
type Error struct{ Why string }

func (e *Error) Error() string { return fmt.Sprintf("the peer gave up: %q", e.Why) }

// Is tells whether err is or has the farewell of a peer.
func Is(err error) bool { return errors.As(err, new(*Error)) }

// Message is the farewell of an end that gives up. Of a reason that is too long the
// end is kept, where errors have their cause and the remedy; this end prints all of it.
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

// Parse returns the Error if b begins with a farewell, else nil.
func Parse(b []byte) error {
	if len(b) < Size || !bytes.HasPrefix(b, []byte(mark)) {
		return nil
	}
	return &Error{string(bytes.TrimRight(b[len(mark):Size], "\x00"))}
}

// Find returns the Error if there is a farewell in b, behind other messages.
func Find(b []byte) error {
	at := bytes.Index(b, []byte(mark))
	if at < 0 {
		return nil
	}
	return Parse(b[at:])
}

// Complete returns the Error if got is a farewell or its beginning, the rest of
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

// Unread returns the Error if a farewell is among what the peer said before it
// closed the connection, else nil. It is for an end that could not send.
func Unread(conn io.Reader) error {
	const most = 4096 // bytes, more than an end says without an answer
	said, _ := io.ReadAll(io.LimitReader(conn, most))
	return Find(said)
}

// Say tells the peer why this end gives up, unless the peer has given up itself.
// It returns when the peer has closed the connection, or after Limit; the
// connection is only good to be closed then. To close it with data unread would
// reset it, and a reset drops what is under way to the peer.
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
