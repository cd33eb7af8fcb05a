package valkeyrdma

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
const protocol = "valkeyrdma"

// Addr is the address of one end of a connection, or of a listener. It is a [net.Addr], and its AddrPort method returns
// address and port as a [net/netip.AddrPort]. Package rsocket has the same type. Network returns "valkeyrdma" here.
type Addr = netconn.Addr

// Conn is a connection. It is a [net.Conn], and its methods may be called concurrently.
type Conn struct {
	conn   netconn.Conn // its lock guards the fields below
	verbs  transport
	stream stream
	// lookAgain is the time until Tick runs next if the peer must send first and has not sent yet.
	lookAgain time.Duration
	holding   *time.Timer // runs release while data is held back; nil before the first time
	held      bool        // whether holding has been started
}

func newConn(cfg *Config) *Conn {
	c := new(Conn)
	c.verbs.cfg = cfg
	c.conn.Init(protocol, (*hooks)(c))
	return c
}

// begin starts the protocol on an established connection. Over iWARP the side that dialled must send first.
func (c *Conn) begin(rc conn.Conn, dialled bool) error {
	if err := c.verbs.share(); err != nil {
		return err
	}
	c.conn.Trace = c.verbs.cfg.Trace
	c.conn.Begin(rc, c.verbs.cfg.MaxIdleTimeout, c.verbs.cfg.Linger, func() time.Duration {
		c.stream = stream{link: &c.verbs, own: c.verbs.memory(), accepted: !dialled,
			silent: !dialled && rc.Device().Info().NodeType == verbs.NodeRNIC}
		c.stream.settle()
		if c.stream.silent {
			c.lookAgain = 2 * silentTime
			return silentTime
		}
		return idleTime
	})
	return nil
}

// silentTime is the time after which a connection that must not send first polls for a message of the
// peer. The time doubles after each poll.
const silentTime = time.Millisecond

// idleTime is the interval at which an idle connection that never probes its peer reposts its receives. Valkey's server
// sends a control message every 3 s, so all receives would be used up after 51 minutes.
const idleTime = time.Minute

// LocalAddr returns this end's address, an [Addr].
func (c *Conn) LocalAddr() net.Addr { return c.conn.LocalAddr() }

// RemoteAddr returns the peer's address, an [Addr].
func (c *Conn) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

// Done returns a channel that is closed when the connection has ended: either side closed it, or it broke. Data that
// arrived before can still be read.
func (c *Conn) Done() <-chan struct{} { return c.conn.RC.Done() }

// SetDeadline sets the deadlines of Read and Write, as SetReadDeadline and SetWriteDeadline do.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.conn.SetDeadline(t, &c.conn.Reader, &c.conn.Writer)
}

// SetReadDeadline sets the deadline of Read. It applies to blocked calls too, which may notice it up to
// 500 µs late.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.conn.SetDeadline(t, &c.conn.Reader) }

// SetWriteDeadline sets the deadline of Write. It applies to blocked calls too.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.conn.SetDeadline(t, &c.conn.Writer) }

// Read reads received data into b. It blocks until data is available. After the peer has ended the connection, Read
// returns the remaining data, and then io.EOF. If the connection broke, the error matches syscall.ECONNRESET. If the
// peer violated the protocol, it matches [ErrProtocol].
func (c *Conn) Read(b []byte) (int, error) { return c.conn.Read(b) }

// Write writes b. It returns once all of b is sent or in the send buffer. The peer's program may read it
// later.
//
// The first Write after the peer has ended the connection succeeds, and its data is discarded, as over TCP.
// So a program that writes before it reads can still read the peer's last data. Later Writes return an
// error that matches syscall.EPIPE.
func (c *Conn) Write(b []byte) (int, error) { return c.conn.Write(b) }

// SetLinger sets the behavior of Close while the peer's machine has not acknowledged all data, as
// [net.TCPConn.SetLinger] does.
//
// If sec < 0, which is the default, Close returns at once. The data is sent in the
// background, for at most 10 seconds.
//
// If sec == 0, Close discards the data.
//
// If sec > 0, Close waits until the peer's machine has acknowledged the data. After sec seconds it
// discards the rest and returns a timeout error.
func (c *Conn) SetLinger(sec int) error { return c.conn.SetLinger(sec) }

// Stats returns the connection's counts. Received bytes are those that Read has returned. Stats takes a lock for a
// moment, and may be called after Close.
func (c *Conn) Stats() rdmacm.ConnStats {
	return c.conn.Stats(func() int { return c.verbs.registeredBytes() })
}

// Close ends the connection in both directions. It returns at once, unless [Conn.SetLinger] has set
// a positive time. Blocked calls return an error that matches net.ErrClosed, and so does a second
// Close.
//
// When the connection ends, valkey-server discards data that it has not read.
//
// When the process exits, unsent data is lost, unlike with TCP. A program that exits right after its
// last Write should call [Conn.Shutdown] instead of Close, or SetLinger with a positive time.
func (c *Conn) Close() error {
	if c == nil {
		return netconn.CloseNil("connection")
	}
	return c.conn.Close()
}

// Shutdown closes the connection. It waits until the peer's machine has acknowledged all data and
// all resources are freed. It may be called after Close, to wait for the work in the background. If the connection
// broke before all data was acknowledged, Shutdown returns the cause. If the peer closes its end meanwhile, it receives
// no more data, and Shutdown returns no error for that.
//
// If ctx ends first, Shutdown returns an error that matches ctx.Err(). The data is then
// still sent in the background. The time limit of [Conn.SetLinger] applies to Shutdown too. Without
// one, Shutdown returns a timeout error after 10 seconds.
func (c *Conn) Shutdown(ctx context.Context) error { return c.conn.Shutdown(ctx) }

// Format implements [fmt.Formatter]. It prints the addresses and the state, never memory.
func (c *Conn) Format(f fmt.State, verb rune) { c.conn.Format(f, verb) }

// hold starts the timer for data that is held back.
func (c *Conn) hold() {
	switch {
	case c.held || c.stream.held == 0:
		return
	case c.holding == nil:
		c.holding = time.AfterFunc(holdTime, c.release)
	default:
		c.holding.Reset(holdTime)
	}
	c.held = true
}

// release sends data that was held back. If the send queue is full, it tries again later.
func (c *Conn) release() {
	c.conn.Mu.Lock()
	defer c.conn.Mu.Unlock()
	c.held = false
	if c.conn.IsOver() {
		return
	}
	c.conn.Progress()
	c.stream.due = true
	c.stream.release()
	c.conn.Tend()
	c.hold()
}

// hooks is the [netconn.Protocol] of a connection.
type hooks Conn

func (c *hooks) Received(wc *verbs.WC) bool {
	switch {
	case wc.Opcode == verbs.WCRecvRDMAWithImm && wc.Flags&verbs.WCWithImm != 0:
		c.stream.noticed(wc.Imm)
	case wc.Opcode == verbs.WCRecv && wc.Flags&verbs.WCWithImm == 0 && wc.ByteLen <= commandSize:
		c.stream.commanded(c.conn.Receives.Bytes(wc.WRID)[:wc.ByteLen])
	default:
		c.stream.fail(violation("%v of %d bytes with flags %v", wc.Opcode, wc.ByteLen, wc.Flags))
	}
	return true
}

func (c *hooks) Sent(wrid uint64)           { c.stream.completed(mark(wrid)) }
func (c *hooks) Settle()                    { c.stream.settle() }
func (c *hooks) Failed() error              { return c.stream.failed }
func (c *hooks) Sends() (int, bool)         { return c.stream.outstanding(), c.stream.short }
func (c *hooks) Read(b []byte) (int, error) { return c.stream.take(b) }

func (c *hooks) Write(b []byte, n uint64) (int, error) {
	if n == 0 && c.stream.discard() {
		return len(b), nil
	}
	written, err := c.stream.write(b)
	(*Conn)(c).hold()
	return written, err
}

// Over ends the stream. An orderly end is a disconnect by the peer.
func (c *hooks) Over(err error) {
	if errors.Is(err, rdmacm.ErrDisconnected) {
		c.stream.end(err)
		return
	}
	c.stream.fail(err)
}

// Tick waits for the first message of the peer.
func (c *hooks) Tick() time.Duration {
	if !c.stream.silent {
		return idleTime
	}
	next := c.lookAgain
	c.lookAgain = min(2*c.lookAgain, time.Second)
	return next
}

func (c *hooks) Probe() { c.stream.keepAlive() }

// End posts an empty write after the last sends, which may have no completion.
func (c *hooks) End() time.Time {
	c.stream.flush()
	return time.Time{}
}

func (c *hooks) Delivered() bool {
	return c.stream.outstanding()+c.stream.held == 0 || c.stream.failed != nil
}

func (c *hooks) Lost() error {
	if c.stream.ended {
		return nil
	}
	return c.stream.failed
}
