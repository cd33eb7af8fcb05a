package transfer

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// A stream begins with a request of the peer that opened it, and the answer. Then, unless the request is a hello,
// package oob connects two queue pairs over it. All numbers are big-endian.
//
//	request:  0  4  magic      answer:  0  4  magic
//	          4  1  version             4  1  version
//	          5  1  kind                5  1  0, or why not
//	          6  2  rail                6  2  number of devices
//	          8  2  device              8 16  engine
//	         10 16  session            24  8  notifications that have arrived: all below this number,
//	                                   32  8  and a bit for each of the next 64
const (
	version      = 1
	requestSize  = 26
	answerSize   = 40
	kindHello    = 1 // only the answer is wanted
	kindConnect  = 2
	answered     = 0
	noSuchDevice = 1
	tooManyRails = 2
)

var (
	requestMagic    = [4]byte{'g', 'v', 't', 'r'}
	descriptorMagic = [4]byte{'g', 'v', 't', 'd'}
)

// attemptTimeout limits the time of an attempt to connect.
const attemptTimeout = 10 * time.Second

type request struct {
	kind    byte
	rail    uint16 // of the session
	device  uint16 // of the peer that answers
	session [16]byte
}

func (q *request) bytes() []byte {
	b := append(make([]byte, 0, requestSize), requestMagic[:]...)
	b = append(b, version, q.kind)
	b = binary.BigEndian.AppendUint16(b, q.rail)
	b = binary.BigEndian.AppendUint16(b, q.device)
	return append(b, q.session[:]...)
}

func parseRequest(b []byte) (*request, error) {
	if err := checkHeader(b, requestSize); err != nil {
		return nil, err
	}
	q := &request{kind: b[5], rail: binary.BigEndian.Uint16(b[6:]), device: binary.BigEndian.Uint16(b[8:]), session: [16]byte(b[10:])}
	if q.kind != kindHello && q.kind != kindConnect {
		return nil, fmt.Errorf("%w: a request of kind %d", ErrProtocol, q.kind)
	}
	return q, nil
}

func checkHeader(b []byte, size int) error {
	switch {
	case len(b) != size || [4]byte(b) != requestMagic:
		return fmt.Errorf("%w: the stream begins with %q", ErrProtocol, b[:min(4, len(b))])
	case b[4] != version:
		return fmt.Errorf("%w: the peer speaks version %d, this end version %d", ErrProtocol, b[4], version)
	}
	return nil
}

type answer struct {
	status  byte
	devices int
	engine  [16]byte
	arrived window
}

func (a *answer) bytes() []byte {
	b := append(make([]byte, 0, answerSize), requestMagic[:]...)
	b = append(b, version, a.status)
	b = binary.BigEndian.AppendUint16(b, uint16(a.devices))
	b = append(b, a.engine[:]...)
	b = binary.BigEndian.AppendUint64(b, a.arrived.base)
	return binary.BigEndian.AppendUint64(b, a.arrived.bits)
}

func parseAnswer(b []byte) (*answer, error) {
	if err := checkHeader(b, answerSize); err != nil {
		return nil, err
	}
	a := &answer{status: b[5], devices: int(binary.BigEndian.Uint16(b[6:])), engine: [16]byte(b[8:]),
		arrived: window{binary.BigEndian.Uint64(b[24:]), binary.BigEndian.Uint64(b[32:])}}
	switch {
	case a.status == noSuchDevice:
		return nil, fmt.Errorf("%w: the peer has no such device", ErrProtocol)
	case a.status == tooManyRails:
		return nil, fmt.Errorf("the peer serves as many rails as it can: %w", syscall.ECONNREFUSED)
	case a.status != answered:
		return nil, fmt.Errorf("%w: the peer refused, for reason %d", ErrProtocol, a.status)
	case a.devices == 0 || a.devices > maxDevices:
		return nil, fmt.Errorf("%w: the peer has %d devices", ErrProtocol, a.devices)
	}
	return a, nil
}

// ask sends a request, and returns the answer. The end of ctx closes the stream. So does an error.
func ask(ctx context.Context, s net.Conn, q *request) (*answer, error) {
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	b := make([]byte, answerSize)
	_, err := s.Write(q.bytes())
	if err == nil {
		var n int
		if n, err = io.ReadFull(s, b); err == io.EOF || err == io.ErrUnexpectedEOF {
			err = fmt.Errorf("the peer closed the stream after %q: %w", b[:n], err)
		}
	}
	var a *answer
	if err == nil {
		a, err = parseAnswer(b)
	}
	if err != nil {
		_ = s.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("the peer's answer: %w", err)
	}
	return a, nil
}

// window remembers which numbers have been seen, in any order.
type window struct {
	base uint64 // all below have been seen
	bits uint64 // of the windowSize numbers from base on
}

const windowSize = 64

func (w *window) has(n uint64) bool {
	return n < w.base || n-w.base < windowSize && w.bits>>(n-w.base)&1 != 0
}

// fits reports whether the window may hold n.
func (w *window) fits(n uint64) bool { return n >= w.base && n-w.base < windowSize }

func (w *window) add(n uint64) {
	for w.bits |= 1 << (n - w.base); w.bits&1 != 0; w.bits >>= 1 {
		w.base++
	}
}
