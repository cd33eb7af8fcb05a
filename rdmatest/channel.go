package rdmatest

import (
	"context"
	"os"
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
)

// channel is an event channel of the manager's. It implements kernel.CM. The fabric's lock
// guards it.
type channel struct {
	m      *manager
	fd     uint32
	events []event
	watch  func(waiting int)
	some   chan struct{}
	closed chan struct{}
}

type event struct {
	id    *cmID
	join  *join // of a membership
	child *cmID // that asks to connect
	resp  abi.RdmaUcmEventResp
}

func view[T any](b []byte) (t T) { copy(abi.Bytes(&t), b); return t }

func (ch *channel) report(ev event) {
	ch.events = append(ch.events, ev)
	ch.changed()
	select {
	case ch.some <- struct{}{}:
	default:
	}
}

// forget drops the events of an ID that is destroyed, and the connections that it has not heard of.
func (ch *channel) forget(id *cmID) {
	var children []*cmID
	ch.events = slices.DeleteFunc(ch.events, func(ev event) bool {
		if ev.id == id && ev.child != nil {
			children = append(children, ev.child)
		}
		return ev.id == id
	})
	ch.changed()
	for _, child := range children {
		if ch.m.isAlive(child) {
			ch.m.destroy(child)
		}
	}
}

// Watch implements kernel.Watchable.
func (ch *channel) Watch(changed func(waiting int)) {
	ch.m.f.mu.Lock()
	defer ch.m.f.mu.Unlock()
	ch.watch = changed
}

func (ch *channel) changed() {
	if ch.watch != nil {
		ch.watch(len(ch.events))
	}
}

// Await hands out the oldest event.
func (ch *channel) Await(ctx context.Context, _, out []byte) error {
	for !ch.next(out) {
		select {
		case <-ch.some:
		case <-ctx.Done():
			return ctx.Err()
		case <-ch.closed:
			return os.ErrClosed
		}
	}
	return nil
}

func (ch *channel) next(out []byte) bool {
	f := ch.m.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(ch.events) == 0 {
		return false
	}
	ev := ch.events[0]
	ch.events = ch.events[1:]
	ch.changed()
	ev.id.told++
	if ev.join != nil {
		ev.join.told++
	}
	copy(out, abi.Bytes(&ev.resp))
	return true
}

// Command carries out a command.
func (ch *channel) Command(in, out []byte) error {
	f := ch.m.f
	f.mu.Lock()
	defer f.mu.Unlock()
	cmd := CMCommand(view[abi.RdmaUcmCmdHdr](in).Cmd)
	if done, err := f.faults.interfere(cmd); done {
		return err
	}
	return ch.m.command(ch, cmd, in[8:], out)
}

// Descriptor lends a number that only MIGRATE_ID takes.
func (ch *channel) Descriptor(use func(uint32)) error { use(ch.fd); return nil }

// Close closes the channel and destroys its IDs.
func (ch *channel) Close() error {
	f := ch.m.f
	f.mu.Lock()
	defer f.mu.Unlock()
	ch.m.abandon(ch)
	delete(ch.m.channels, ch.fd)
	close(ch.closed)
	return nil
}
