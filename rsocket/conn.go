package rsocket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/internal/netconn"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

// protocol is the name of the network in addresses and errors.
const protocol = "rsocket"

// Addr is the address of one end of a connection, or of a listener. It is a [net.Addr], and its AddrPort method returns
// address and port as a [net/netip.AddrPort]. Package valkeyrdma has the same type. Network returns "rsocket" here.
type Addr = netconn.Addr

// Conn is a connection. It is a [net.Conn], and its methods may be called concurrently.
//
// It has no goroutine until Close, and makes progress only during calls of its methods. If several calls
// wait, one of them polls the completions for all.
type Conn struct {
	conn     netconn.Conn // its lock guards the fields below
	verbs    transport
	stream   *stream
	mappings mappings // has a lock of its own
	begun    time.Time
}

func newConn() *Conn {
	c := new(Conn)
	c.conn.Init(protocol, (*hooks)(c))
	// The memory belongs to the program again when Close returns. A mapping that fails to close is
	// tried again, and its error reported, when the connection is freed.
	c.conn.Closed = func() { _ = c.mappings.Close() }
	return c
}

// prepare registers memory, posts all receives and sets the private data for the peer.
func (c *Conn) prepare(rc conn.Conn, cfg *Config) error {
	if err := c.verbs.prepare(rc, cfg, &c.conn.Receives); err != nil {
		return err
	}
	rc.SetPrivateData(c.verbs.hello(cfg).marshal())
	return nil
}

// begin starts the protocol on an established connection. The side that dialled sends first. Over iWARP it
// must, and the other side waits for that.
func (c *Conn) begin(rc conn.Conn, peer hello, cfg *Config, dialled bool) {
	c.conn.Trace = cfg.Trace
	c.conn.Begin(rc, cfg.MaxIdleTimeout, cfg.Linger, func() time.Duration {
		c.verbs.order = peer.order()
		c.mappings.most = peer.mappings
		rc.Own(&c.mappings)
		c.stream = newStream(&c.verbs, c.verbs.memory(cfg), peer, cfg.SendQueue, uint16(cfg.RecvQueue), c.verbs.iwarp)
		c.stream.silent = c.verbs.iwarp && !dialled
		c.stream.settle()
		c.begun = time.Now()
		return 0
	})
}

// LocalAddr returns this end's address, an [Addr].
func (c *Conn) LocalAddr() net.Addr { return c.conn.LocalAddr() }

// RemoteAddr returns the peer's address, an [Addr].
func (c *Conn) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

// Done returns a channel that is closed when the connection has ended: either side closed it, or it broke. Data that
// arrived before can still be read.
func (c *Conn) Done() <-chan struct{} { return c.conn.RC.Done() }

// SetDeadline sets the deadlines of SetReadDeadline and SetWriteDeadline.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.conn.SetDeadline(t, &c.conn.Reader, &c.conn.Writer)
}

// SetReadDeadline sets the deadline of Read, including calls that are under way. They may notice it up
// to 500 µs late.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.conn.SetDeadline(t, &c.conn.Reader) }

// SetWriteDeadline sets the deadline of Write, WriteAt and Map, including calls that are under way.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.conn.SetDeadline(t, &c.conn.Writer) }

// Read reads received data into b. It blocks until data is available. After the end of the peer's data it returns
// io.EOF. If the connection broke, it returns all data that had arrived, and then an error that matches
// syscall.ECONNRESET.
func (c *Conn) Read(b []byte) (int, error) { return c.conn.Read(b) }

// Write writes b. It returns once all of it is sent or in the send buffer, even if the peer's program has
// not read it.
//
// The first Write after the peer has closed its end succeeds and its data is discarded, as over TCP. A
// program that writes before it reads can therefore still read the peer's last data. Later Writes return
// an error that matches syscall.EPIPE.
func (c *Conn) Write(b []byte) (int, error) { return c.conn.Write(b) }

// CloseWrite ends this side's data: the peer's Read returns all data, and then io.EOF. Read is not
// affected. A Write that is under way in another goroutine ends at once, with an error that matches
// syscall.EPIPE, and so do later ones. A second CloseWrite does nothing.
//
// C: rshutdown with SHUT_WR
func (c *Conn) CloseWrite() error { return c.conn.CloseWrite(func() { c.stream.end(false) }) }

// SetLinger sets what Close does with data that the peer's machine has not taken yet, as
// [net.TCPConn.SetLinger] does.
//
// If sec < 0, which is the default, Close returns at once. The data is sent in the
// background, for at most 10 seconds.
//
// If sec == 0, Close discards the data and resets the connection. The peer's Read returns
// an error that matches syscall.ECONNRESET.
//
// If sec > 0, Close waits until the peer's machine has taken the data. After sec seconds it
// discards the rest and returns an error that is a timeout.
//
// C: rsetsockopt with SO_LINGER
func (c *Conn) SetLinger(sec int) error { return c.conn.SetLinger(sec) }

// Stats returns the connection's counts. Received bytes are those that Read has returned. Registered memory does not
// include that of Mappings. Stats takes a lock for a moment, and may be called after Close.
func (c *Conn) Stats() rdmacm.ConnStats {
	return c.conn.Stats(func() int { return len(c.verbs.shared.Bytes()) + len(c.verbs.own.Bytes()) })
}

// Close ends the connection in both directions and returns at once, unless [Conn.SetLinger]
// says otherwise. Calls that are under way return an error that matches net.ErrClosed. The
// peer gets all data, even if it reads later. Mappings are closed before Close returns. A
// peer that still writes to a mapping breaks the connection, and undelivered data is lost.
// A second Close returns an error that matches net.ErrClosed.
//
// Unlike with TCP, the kernel discards unsent data when the process exits. A program
// that exits right after its last Write should call [Conn.Shutdown] instead, or call
// SetLinger with a positive number before Close.
//
// C: rclose
func (c *Conn) Close() error {
	if c == nil {
		return netconn.CloseNil("connection")
	}
	return c.conn.Close()
}

// Shutdown closes the connection, and waits until the peer's machine has taken all data and
// everything is freed. It may be called after Close, to wait for the work in the
// background. If the connection broke before the data was taken, Shutdown returns the
// cause. It is not an error if the peer closes its end meanwhile and takes no more data.
//
// If ctx ends first, Shutdown returns an error that matches ctx.Err(). The data is then
// still sent in the background. The limits of [Conn.SetLinger] apply to Shutdown too. Without
// them it gives up after 10 seconds, with an error that is a timeout.
//
// Over iWARP a send completes once this machine's TCP has taken it. Shutdown waits only for that,
// as rclose does, and later losses are not reported. A program that must know that its data
// arrived waits for an answer of its peer before it closes.
func (c *Conn) Shutdown(ctx context.Context) error { return c.conn.Shutdown(ctx) }

// Format implements [fmt.Formatter]. It prints the addresses and the state, never memory.
func (c *Conn) Format(f fmt.State, verb rune) { c.conn.Format(f, verb) }

// hooks is the [netconn.Protocol] of a connection.
type hooks Conn

func (c *hooks) Received(wc *verbs.WC) bool {
	w, err := c.verbs.received(wc, &c.conn.Receives)
	if err != nil {
		c.stream.violate(err)
		return false
	}
	c.stream.arrived(w)
	return true
}

// Sent returns the slots and buffers of a completed message.
func (c *hooks) Sent(wrid uint64) {
	if wrid != 0 {
		c.stream.completed(refund(wrid))
	}
}

func (c *hooks) Settle()                    { c.stream.settle() }
func (c *hooks) Over(err error)             { c.stream.fail(err) }
func (c *hooks) Failed() error              { return c.stream.failed }
func (c *hooks) Sends() (int, bool)         { return c.stream.sent, c.stream.short }
func (c *hooks) Read(b []byte) (int, error) { return c.stream.read(b) }
func (c *hooks) Delivered() bool            { return c.stream.delivered() }

func (c *hooks) Write(b []byte, n uint64) (int, error) {
	if n == 0 && c.stream.discard() {
		return len(b), nil
	}
	return c.stream.write(b)
}

// mpaTimeout is how long a kernel waits for the answer to an iWARP connect request. The side that accepted
// must not send while that answer may still be under way. If the peer has sent nothing by then, it may be
// gone. A probe finds that out.
const mpaTimeout = 10 * time.Second

func (c *hooks) Tick() time.Duration { return 0 }

func (c *hooks) Probe() {
	c.stream.overdue = time.Since(c.begun) >= mpaTimeout
	c.stream.keepAlive()
}

// silentLimit is how long a closed connection waits for the first word of a peer that dialled
// over iWARP. Such a peer must send first, and a correct peer does so as soon as it is connected.
const silentLimit = 2 * time.Second

// End sends DISCONNECT, once the peer has spoken or had the time to.
func (c *hooks) End() (again time.Time) {
	if c.stream.silent {
		if speak := c.begun.Add(silentLimit); time.Until(speak) <= 0 {
			c.stream.silent = false
		} else {
			again = speak
		}
	}
	c.stream.end(true)
	return again
}

// Lost returns the reason why data may not have been delivered. A peer that has read DISCONNECT, or the SHUTDOWN
// behind its own, may disconnect before the last acknowledgement arrives here.
func (c *hooks) Lost() error {
	s := c.stream
	switch {
	case s.ends.gotDisconnect:
		return nil
	case (s.ends.sentDisconnect || s.ends.over()) && errors.Is(s.failed, rdmacm.ErrDisconnected):
		return nil
	}
	return s.failed
}
