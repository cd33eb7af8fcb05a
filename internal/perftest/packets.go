package perftest

import (
	"context"
	"fmt"
	"strconv"

	"github.com/goverbs/goverbs/internal/giveup"
)

// packets are the messages of a Messenger.
type packets struct {
	Messenger
	marked bool // see markedSince
}

func (p packets) endpoint(e Endpoint) []byte       { return e.appendStruct(nil, p.marked) }
func (p packets) parse(b []byte) (Endpoint, error) { return parseStruct(b, p.marked) }

func (p packets) forPeer(version string) channel {
	number, _ := strconv.ParseFloat(version, 64) // parseVersion has checked it
	p.marked = number >= markedSince
	return p
}

func (p packets) last(context.Context) {}

func (p packets) send(ctx context.Context, message []byte) error { return p.Send(ctx, message) }

func (p packets) receive(ctx context.Context, message []byte) error {
	buf := make([]byte, MaxMessage)
	n, err := p.Receive(ctx, buf)
	if err != nil {
		return err
	}
	switch why := giveup.Parse(buf[:n]); {
	case why != nil:
		return why
	case n != len(message):
		return fmt.Errorf("got a message of %d bytes, want %d", n, len(message))
	}
	copy(message, buf)
	return nil
}
