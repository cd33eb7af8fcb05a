package transfer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/goverbs/goverbs/internal/dialer"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

const (
	// maxPending is how many streams may be in the middle of connecting.
	maxPending = 128
	// maxLanes is how many lanes there may be, with those that have ended and are remembered.
	maxLanes = 4096
)

// lane is a rail of a peer, at the end that serves.
type lane struct {
	ctx     context.Context
	cancel  context.CancelFunc
	ended   chan struct{} // closed once the lane's queue pair is closed
	arrived window        // the notifications, of the last connection that has received anything
	notes   *uverbs.MR    // receives them
	wrs     [maxNotes]verbs.RecvWR
}

type laneKey struct {
	session [16]byte
	rail    uint16
}

// Serve lets peers connect over the streams of l, until Close or an error of l, which it returns. It owns l. If it is a
// TLS listener, it decides who may connect. Each peer may access all regions of the engine, as their access flags
// allow, so connect only trusted programs.
//
// At most 128 streams are connected at a time. If there are more, the oldest one is dropped, and its peer tries
// again: see [Engine.Open]. So silent peers do not keep others out. At most 4096 rails of peers are connected; Serve refuses further ones.
func (e *Engine) Serve(l net.Listener) error { return e.serve(l, e.accept) }

// serve is Serve, with a function that handles the streams.
func (e *Engine) serve(l net.Listener, handle func(net.Conn)) error {
	defer l.Close()
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return failed("serve", "engine", "", net.ErrClosed)
	}
	e.served[l] = struct{}{}
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.served, l)
	}()
	for {
		s, err := l.Accept()
		if err == nil {
			e.begin(s, handle)
			continue
		}
		if !dialer.GoesOn(e.ctx, err) {
			if e.isClosed() {
				err = net.ErrClosed
			}
			return failed("serve", "listener at "+l.Addr().String(), "", err)
		}
	}
}

// begin connects a stream. Another one may have to make room for it.
func (e *Engine) begin(s net.Conn, handle func(net.Conn)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		_ = s.Close()
		return
	}
	if len(e.pending) == maxPending {
		_ = e.pending[0].Close()
		e.pending = slices.Delete(e.pending, 0, 1)
	}
	e.pending = append(e.pending, s)
	e.all.Go(func() { handle(s) })
}

// connected notes that a stream is not pending any more.
func (e *Engine) connected(s net.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pending = slices.DeleteFunc(e.pending, func(other net.Conn) bool { return other == s })
}

// accept handles a stream. Its errors concern the peer, which gets them too.
func (e *Engine) accept(s net.Conn) {
	ctx, cancel := context.WithTimeout(e.ctx, attemptTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	defer e.connected(s)
	b := make([]byte, requestSize)
	_, err := io.ReadFull(s, b)
	if err != nil {
		_ = s.Close()
		return
	}
	q, err := parseRequest(b)
	if err != nil {
		_ = s.Close()
		return
	}
	a := answer{devices: len(e.pds), engine: e.id}
	if q.kind == kindHello || int(q.device) >= len(e.pds) {
		if q.kind == kindConnect {
			a.status = noSuchDevice
		}
		_, _ = s.Write(a.bytes())
		_ = s.Close()
		return
	}
	l := e.replace(laneKey{q.session, q.rail})
	if l == nil {
		a.status = tooManyRails
		_, _ = s.Write(a.bytes())
		_ = s.Close()
		return
	}
	defer close(l.ended)
	defer l.cancel()
	a.arrived = l.arrived
	if _, err := s.Write(a.bytes()); err != nil {
		_ = s.Close()
		return
	}
	stop()
	cfg := e.connection(int(q.device))
	cfg.QP.Cap = verbs.QPCap{MaxSendWR: 1, MaxRecvWR: maxNotes}
	attempt, done := context.WithTimeout(l.ctx, attemptTimeout)
	conn, err := oob.Accept(attempt, s, cfg)
	done()
	e.connected(s)
	if err != nil {
		return
	}
	l.serve(e, conn)
}

// replace returns a new lane, or nil if there are too many. It closes the connection of the one before.
func (e *Engine) replace(k laneKey) *lane {
	l := &lane{ended: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(e.ctx)
	e.mu.Lock()
	old := e.lanes[k]
	if old == nil && len(e.lanes) >= maxLanes && !e.forgetLane() {
		e.mu.Unlock()
		return nil
	}
	e.lanes[k] = l
	e.mu.Unlock()
	if old != nil {
		old.cancel()
		<-old.ended
		l.arrived = old.arrived
	}
	return l
}

// forgetLane forgets a lane that has ended, and reports whether there was one. e.mu is held.
func (e *Engine) forgetLane() bool {
	for k, l := range e.lanes {
		select {
		case <-l.ended:
			delete(e.lanes, k)
			return true
		default:
		}
	}
	return false
}

// postReceives makes room for notifications.
func (l *lane) postReceives(conn *oob.Conn) (err error) {
	if l.notes, err = conn.PD().AllocMR(maxNotes*noteSize, verbs.AccessLocalWrite, nil); err != nil {
		return err
	}
	conn.Own(l.notes)
	for i := range l.wrs {
		l.wrs[i] = verbs.RecvWR{WRID: uint64(i), SGL: []verbs.SGE{l.notes.SGE(i*noteSize, noteSize)}}
	}
	_, err = conn.QP().PostRecv(l.wrs[:])
	return err
}

// serve counts notifications until the connection has ended. The peer's probe waits until there is a receive, so the
// peer sends no notification that nobody would count.
func (l *lane) serve(e *Engine, conn *oob.Conn) {
	defer conn.Close()
	defer context.AfterFunc(l.ctx, func() { _ = conn.Disconnect() })()
	var wcs [maxNotes]verbs.WC
	err := l.postReceives(conn)
	for probed := false; err == nil; {
		var n int
		n, err = conn.RecvCQ().Wait(context.Background(), wcs[:])
		for i := range wcs[:n] {
			wc := &wcs[i]
			if wc.Status != verbs.StatusSuccess {
				continue // the receives are flushed
			}
			if !probed { // the peer has got the answer with the numbers before
				probed, l.arrived = true, window{}
			}
			bad := l.count(e, wc)
			if bad == nil {
				_, bad = conn.QP().PostRecv(l.wrs[wc.WRID : wc.WRID+1])
			}
			if bad != nil {
				_ = conn.Disconnect()
			}
		}
	}
	if !errors.Is(conn.Err(), rdmacm.ErrDisconnected) { // a bye could reach the peer before its device knows which request has failed
		select {
		case <-l.ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// count counts a notification.
func (l *lane) count(e *Engine, wc *verbs.WC) error {
	switch wc.ByteLen {
	case 0:
		return nil // a probe
	case noteSize:
	default:
		return fmt.Errorf("%w: a notification of %d bytes", ErrProtocol, wc.ByteLen)
	}
	note := l.notes.Bytes()[wc.WRID*noteSize:][:noteSize]
	number := binary.BigEndian.Uint64(note)
	if !l.arrived.fits(number) || l.arrived.has(number) {
		return fmt.Errorf("%w: a notification with the number %d", ErrProtocol, number)
	}
	l.arrived.add(number)
	return e.counts.add(binary.BigEndian.Uint32(note[8:]))
}
