package rping

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// end is one end of a connection, with the memory that the protocol needs.
type end struct {
	conn     connection
	poll     bool
	size     int        // of data and sink
	messages *uverbs.MR // one to send, then one to receive
	data     *uverbs.MR // the client's source, or the server's copy
	sink     *uverbs.MR // where the client's data comes back; the server has none
	client   bool
	debug    func(format string, args ...any)
}

// On iWARP, the destination of a READ needs remote write access.
const access = verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite

// queues are as large as C's.
var queues = verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 2, MaxSendSGE: 1, MaxRecvSGE: 1}

// config prepares the end while it connects.
func (e *end) config() *rdmacm.Config {
	return &rdmacm.Config{
		Prepare:            func(c *rdmacm.Conn) error { return e.prepare(c) },
		QP:                 uverbs.QPOptions{Cap: queues},
		ResponderResources: 1,
		InitiatorDepth:     1,
	}
}

func (e *end) prepare(c connection) error {
	e.conn = c
	var err error
	if e.messages, err = e.alloc(2 * infoSize); err != nil {
		return err
	}
	if e.data, err = e.alloc(e.size); err != nil {
		return err
	}
	if e.client {
		if e.sink, err = e.alloc(e.size); err != nil {
			return err
		}
	}
	return e.postRecv()
}

func (e *end) alloc(size int) (*uverbs.MR, error) {
	mr, err := e.conn.PD().AllocMR(size, access, nil)
	if err == nil {
		e.conn.Own(mr)
	}
	return mr, err
}

func (e *end) postRecv() error {
	_, err := e.conn.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{e.messages.SGE(infoSize, infoSize)}}})
	return err
}

// send posts a message. flags determines whether it reports to the send CQ.
func (e *end) send(info info, flags verbs.SendFlags) error {
	e.debug("send: %v", info)
	info.encode(e.messages.Bytes())
	wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: flags, SGL: []verbs.SGE{e.messages.SGE(0, infoSize)}}
	return e.post(wr)
}

func (e *end) post(wr verbs.SendWR) error {
	_, err := e.conn.QP().PostSend([]verbs.SendWR{wr})
	return err
}

// recv waits for a message. The peer sends the next one only after an answer, so a
// single receive is enough.
func (e *end) recv(ctx context.Context) (info, error) {
	wc, err := e.wait(ctx, e.conn.RecvCQ())
	if err != nil {
		return info{}, err
	}
	if wc.ByteLen != infoSize {
		return info{}, fmt.Errorf("%w: a message of %d bytes, not rping's %d", ErrProtocol, wc.ByteLen, infoSize)
	}
	info := decodeInfo(e.messages.Bytes()[infoSize:])
	e.debug("received: %v", info)
	return info, e.postRecv()
}

// move carries out one RDMA operation.
func (e *end) move(ctx context.Context, op verbs.Opcode, peer info, size int) error {
	err := e.post(verbs.SendWR{
		Opcode: op, Flags: verbs.SendSignaled, SGL: []verbs.SGE{e.data.SGE(0, size)},
		RemoteAddr: peer.addr, RKey: peer.rkey,
	})
	if err != nil {
		return err
	}
	wc, err := e.wait(ctx, e.conn.SendCQ())
	if err == nil {
		e.debug("%v of %d bytes is done", wc.Opcode, size)
	}
	return err
}

// wait takes the next completion, until ctx or the connection ends.
func (e *end) wait(ctx context.Context, cq *uverbs.CQ) (verbs.WC, error) {
	var wcs [1]verbs.WC
	n, err := e.take(ctx, cq, wcs[:])
	switch wc := wcs[0]; {
	case n == 0:
		return wc, err
	case wc.Status == verbs.StatusWRFlushErr:
		return wc, e.whyFlushed(&wc)
	default:
		return wc, wc.Err()
	}
}

func (e *end) take(ctx context.Context, cq *uverbs.CQ, wcs []verbs.WC) (n int, err error) {
	next := cq.Wait
	if e.poll {
		next = func(ctx context.Context, wcs []verbs.WC) (int, error) { return peer.Poll(ctx, cq, wcs) }
	}
	n, err = next(ctx, wcs)
	if n == 0 && ctx.Err() != nil {
		// Everything that the peer did before it disconnected is in the CQ by now.
		if n, err = cq.Poll(wcs); n == 0 {
			err = context.Cause(ctx)
		}
	}
	if cause := e.conn.Err(); cause != nil && errors.Is(err, cause) {
		err = cause
	}
	return n, err
}

// whyFlushed finds the reason for which a work request was dropped; the flush
// comes a little before the event.
func (e *end) whyFlushed(wc *verbs.WC) error {
	select {
	case <-e.conn.Done():
		return e.conn.Err()
	case <-time.After(5 * time.Second):
		return wc.Err()
	}
}

// whileConnected returns a context that ends with ctx or with the connection, whose end is then
// its cause.
func (e *end) whileConnected(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-e.conn.Done():
			cancel(e.conn.Err())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// connection is the part of an rdmacm.Conn, or of an ownConn, that an end uses.
type connection interface {
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort
	Device() *uverbs.Device
	PD() *uverbs.PD
	QP() *uverbs.QP
	SendCQ() *uverbs.CQ
	RecvCQ() *uverbs.CQ
	Own(io.Closer)
	Done() <-chan struct{}
	Err() error
	Close() error
}

// listener is where clients come from.
type listener interface {
	Next(context.Context) (*request, error)
	Close() error
}

// request is a client's.
type request struct {
	from   netip.AddrPort
	accept func(context.Context, *end) error
	reject func() error
}

// requests is an rdmacm.Listener.
type requests struct{ *rdmacm.Listener }

func listen(_ context.Context, address string) (listener, error) {
	l, err := rdmacm.Listen(context.Background(), address)
	if err != nil {
		return nil, err
	}
	return requests{l}, nil
}

func (l requests) Next(ctx context.Context) (*request, error) {
	r, err := l.Listener.Next(ctx)
	if err != nil {
		return nil, err
	}
	return &request{
		from: r.RemoteAddr,
		accept: func(ctx context.Context, e *end) error {
			_, err := r.Accept(ctx, e.config())
			return err
		},
		reject: func() error { return r.Reject(nil) },
	}, nil
}

// info is the only message of the protocol: the location of the client's buffer. On
// the wire its fields are big-endian, without gaps. The server's answers leave them
// undefined.
type info struct {
	addr uint64
	rkey uint32
	size uint32 // bytes
}

const infoSize = 16

func (i info) String() string {
	return fmt.Sprintf("%d bytes at %#x, key %#x", i.size, i.addr, i.rkey)
}

func (i info) encode(b []byte) {
	binary.BigEndian.PutUint64(b, i.addr)
	binary.BigEndian.PutUint32(b[8:], i.rkey)
	binary.BigEndian.PutUint32(b[12:], i.size)
}

func decodeInfo(b []byte) info {
	return info{binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])}
}

// fillPing writes the text of ping n: its number, then the characters from A to
// z over and over, one further on with each ping, and a NUL.
func fillPing(b []byte, n int) {
	const first, characters = 'A', 'z' - 'A' + 1
	head := copy(b, fmt.Sprintf("rdma-ping-%d: ", n))
	for i := range b[head:] {
		b[head+i] = byte(first + (n+i)%characters)
	}
	b[len(b)-1] = 0
}

// pingText returns the text of a ping: everything before the NUL, if there is one.
func pingText(b []byte) []byte {
	text, _, _ := bytes.Cut(b, []byte{0})
	return text
}

// echoSize returns the number of bytes of a ping that the server writes back: the text and its
// NUL.
func echoSize(b []byte) int { return min(len(pingText(b))+1, len(b)) }
