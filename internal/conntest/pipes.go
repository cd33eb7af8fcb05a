package conntest

import (
	"net"
	"sync"
)

// Pipes is a net.Listener whose streams are net.Pipes.
type Pipes struct {
	streams chan net.Conn
	closed  chan struct{}
	close   func()
}

// NewPipes returns a listener for Dial.
func NewPipes() *Pipes {
	p := &Pipes{streams: make(chan net.Conn), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p
}

// Accept implements [net.Listener].
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case s := <-p.streams:
		return s, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (p *Pipes) Close() error {
	p.close()
	return nil
}

// Addr implements [net.Listener].
func (p *Pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// Dial returns a stream to the listener. If the listener is closed, so is the stream.
func (p *Pipes) Dial() net.Conn {
	near, far := net.Pipe()
	select {
	case p.streams <- far:
	case <-p.closed:
		_ = far.Close()
	}
	return near
}
