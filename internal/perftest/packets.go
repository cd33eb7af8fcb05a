package perftest

import (
	"context"
	"fmt"

	"github.com/goverbs/goverbs/internal/farewell"
)

// packets are the messages of a Messenger.
type packets struct{ Messenger }

func (p packets) endpoint(e Endpoint) []byte       { return e.appendStruct(nil) }
func (p packets) parse(b []byte) (Endpoint, error) { return parseStruct(b) }
func (p packets) last(context.Context)             {}

func (p packets) send(ctx context.Context, message []byte) error { return p.Send(ctx, message) }

func (p packets) receive(ctx context.Context, message []byte) error {
	buf := make([]byte, MaxMessage)
	n, err := p.Receive(ctx, buf)
	if err != nil {
		return err
	}
	switch why := farewell.Parse(buf[:n]); {
	case why != nil:
		return why
	case n != len(message):
		return fmt.Errorf("got a message of %d bytes, want %d", n, len(message))
	}
	copy(message, buf)
	return nil
}
