package fakefabric

import (
	"context"
	"os"
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/rdmacm"
)

// channel is an event channel of the manager's. It implements kernel.CM.
type channel struct {
	m      *manager
	events []event // guarded by the manager's lock
	some   chan struct{}
	closed chan struct{}
}

type event struct {
	id   *cmID
	resp abi.RdmaUcmEventResp
}

func view[T any](b []byte) (t T) { copy(abi.Bytes(&t), b); return t }

// report queues an event of an ID. uid and handle are those that it names.
func (ch *channel) report(id *cmID, uid uint64, handle uint32, typ rdmacm.EventType, status int32, param *abi.RdmaUcmConnParam) {
	ev := event{id: id, resp: abi.RdmaUcmEventResp{Uid: uid, Id: handle, Event: uint32(typ), Status: uint32(status)}}
	if param != nil {
		copy(ev.resp.Param[:], abi.Bytes(param))
	}
	ch.events = append(ch.events, ev)
	select {
	case ch.some <- struct{}{}:
	default:
	}
}

// forget drops the events of an ID that goes.
func (ch *channel) forget(id *cmID) {
	ch.events = slices.DeleteFunc(ch.events, func(ev event) bool { return ev.id == id })
}

// Await hands out the oldest event.
func (ch *channel) Await(ctx context.Context, _, out []byte) error {
	for {
		ch.m.mu.Lock()
		if len(ch.events) > 0 {
			ev := ch.events[0]
			ch.events = ch.events[1:]
			ev.id.told++
			copy(out, abi.Bytes(&ev.resp))
			ch.m.mu.Unlock()
			return nil
		}
		ch.m.mu.Unlock()
		select {
		case <-ch.some:
		case <-ctx.Done():
			return ctx.Err()
		case <-ch.closed:
			return os.ErrClosed
		}
	}
}

// Command carries out a command.
func (ch *channel) Command(in, out []byte) error {
	ch.m.mu.Lock()
	defer ch.m.mu.Unlock()
	return ch.m.command(ch, view[abi.RdmaUcmCmdHdr](in).Cmd, in[8:], out)
}

// Descriptor lends a number that nothing has.
func (ch *channel) Descriptor(use func(uint32)) error { use(7); return nil }

// Close closes the channel.
func (ch *channel) Close() error {
	ch.m.mu.Lock()
	defer ch.m.mu.Unlock()
	ch.m.channels--
	close(ch.closed)
	return nil
}
