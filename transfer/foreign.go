package transfer

import (
	"context"
	"crypto/rand"
	"net"

	"github.com/goverbs/goverbs/internal/foreign"
	"github.com/goverbs/goverbs/oob"
)

// Package transfer/mooncake opens peers that speak another protocol. Batches and rails are those of this package.
func init() {
	foreign.Set(foreign.Calls[*Engine, *Peer, *Region, *Remote]{
		Devices: (*Engine).connections,
		Open:    openForeign,
		Remote:  (*Peer).remote,
		Memory:  (*Region).memory,
		Serve:   (*Engine).serveForeign,
		Go:      (*Engine).goUntilClose,
	})
}

func (e *Engine) connections() []*oob.Config {
	all := make([]*oob.Config, len(e.pds))
	for i := range all {
		all[i] = e.connection(i)
	}
	return all
}

func openForeign(ctx context.Context, e *Engine, address string, find func(context.Context) (*foreign.Peer, error)) (*Peer, error) {
	return e.openWith(ctx, address, func(ctx context.Context, address string) (*Peer, error) {
		f, err := find(ctx)
		if err != nil {
			return nil, err
		}
		p := &Peer{address: address, devices: f.Devices}
		p.dial = func(ctx context.Context, r *rail) (foreign.Conn, error) {
			return f.Connect(ctx, r.device, r.remote, slots)
		}
		_, _ = rand.Read(p.id[:]) // never fails
		p.target = p.remote(f.Target)
		return e.start(ctx, p)
	})
}

func (p *Peer) remote(m foreign.Memory) *Remote {
	return &Remote{engine: p.id, access: remoteAccess, addr: m.Addr, length: m.Length, keys: m.Keys}
}

func (r *Region) memory() foreign.Memory {
	m := foreign.Memory{Addr: r.addr, Length: uint64(r.length)}
	for _, mr := range r.mrs {
		m.Keys = append(m.Keys, mr.RKey())
	}
	return m
}

func (e *Engine) serveForeign(l net.Listener, answer func(net.Conn)) error {
	return e.serve(l, func(s net.Conn) {
		ctx, cancel := context.WithTimeout(e.ctx, attemptTimeout)
		defer cancel()
		defer s.Close()
		defer context.AfterFunc(ctx, func() { _ = s.Close() })()
		defer e.connected(s)
		answer(s)
	})
}

func (e *Engine) goUntilClose(f func(context.Context)) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.all.Go(func() { f(e.ctx) })
	}
	return !e.closed
}
