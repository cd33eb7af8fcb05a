package rdmacm

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
)

// Trace is a set of functions that are called while connections are set up and when they end, as those of
// net/http/httptrace. Any of them may be nil. They may be called concurrently, and they delay the dial or the Accept
// that calls them. None of them may close the Listener, whose Close waits for them.
type Trace struct {
	// DialStart is called before each attempt to connect to an address. A dial may try several addresses, and each
	// several times.
	DialStart func(remote netip.AddrPort)
	// AddrResolved is called when the attempt has found the device to use, and RouteResolved when it has found the way
	// to the peer.
	AddrResolved, RouteResolved func(remote netip.AddrPort)
	// DialDone is called after each attempt. err is nil if it has succeeded. It matches a *RejectedError if the peer
	// has rejected the request.
	DialDone func(remote netip.AddrPort, err error)

	// Accepted is called when a Listener has set up a connection, before Accept returns it.
	Accepted func(local, remote netip.AddrPort)
	// Refused is called when a Listener has not set up a connection because of err. It matches ErrBusy if the backlog
	// was full, and net.ErrClosed if the request waited when the Listener was closed.
	Refused func(local, remote netip.AddrPort, err error)

	// NoRoom is called when a call of Send or Write of package msg, rsocket or valkeyrdma has to wait, because the peer
	// grants no credit or has no room. It is part of that call, so it must not call methods of the connection.
	NoRoom func(local, remote netip.AddrPort)
	// Disconnected is called once when an established connection has ended, with the result of Conn.Err. It runs on a
	// goroutine of its own, which each connection has if Disconnected is not nil.
	Disconnected func(local, remote netip.AddrPort, cause error)
}

func (t *Trace) dialStart(remote netip.AddrPort) {
	if t != nil && t.DialStart != nil {
		t.DialStart(remote)
	}
}

func (t *Trace) addrResolved(remote netip.AddrPort) {
	if t != nil && t.AddrResolved != nil {
		t.AddrResolved(remote)
	}
}

func (t *Trace) routeResolved(remote netip.AddrPort) {
	if t != nil && t.RouteResolved != nil {
		t.RouteResolved(remote)
	}
}

func (t *Trace) dialDone(remote netip.AddrPort, err error) {
	if t != nil && t.DialDone != nil {
		t.DialDone(remote, err)
	}
}

func (t *Trace) accepted(local, remote netip.AddrPort) {
	if t != nil && t.Accepted != nil {
		t.Accepted(local, remote)
	}
}

func (t *Trace) refused(local, remote netip.AddrPort, err error) {
	if t != nil && t.Refused != nil {
		t.Refused(local, remote, err)
	}
}

// traceEnd makes the end of an established connection call Trace.Disconnected.
func (c *Conn) traceEnd(t *Trace) {
	if t != nil && t.Disconnected != nil {
		go func() {
			<-c.Done()
			t.Disconnected(c.local, c.remote, c.Err())
		}()
	}
}

// LogTrace returns a Trace that logs: failures as warnings, and all else for debugging.
func LogTrace(l *slog.Logger) *Trace {
	log := func(err error, text string, args ...any) {
		level := slog.LevelDebug
		if err != nil {
			level, args = slog.LevelWarn, append(args, "err", err)
		}
		l.Log(context.Background(), level, text, args...)
	}
	dialing := func(text string) func(netip.AddrPort) {
		return func(remote netip.AddrPort) { log(nil, text, "remote", remote) }
	}
	return &Trace{
		DialStart: dialing("dial"), AddrResolved: dialing("address resolved"), RouteResolved: dialing("route resolved"),
		DialDone: func(remote netip.AddrPort, err error) { log(err, "dialled", "remote", remote) },
		Accepted: func(local, remote netip.AddrPort) { log(nil, "accepted", "local", local, "remote", remote) },
		Refused: func(local, remote netip.AddrPort, err error) {
			log(err, "refused", "local", local, "remote", remote)
		},
		NoRoom: func(local, remote netip.AddrPort) { log(nil, "the peer has no room", "local", local, "remote", remote) },
		Disconnected: func(local, remote netip.AddrPort, cause error) {
			if errors.Is(cause, ErrDisconnected) || errors.Is(cause, net.ErrClosed) { // in order
				log(nil, "disconnected", "local", local, "remote", remote, "cause", cause)
				return
			}
			log(cause, "disconnected", "local", local, "remote", remote)
		},
	}
}
