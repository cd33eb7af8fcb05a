package pingpong

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/internal/giveup"
	"github.com/goverbs/goverbs/verbs"
)

// exchange is the TCP connection over which the ends exchange their addresses. Its
// waits end with the context, unlike C's.
type exchange struct {
	net.Conn
	ctx    context.Context
	forget func() // the context
}

func talk(ctx context.Context, conn net.Conn) *exchange {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(1, 0))
		close(over)
	})
	return &exchange{Conn: conn, ctx: ctx, forget: sync.OnceFunc(func() {
		if !stop() {
			<-over
		}
	})}
}

func (t *exchange) Close() error {
	t.forget()
	return t.Conn.Close()
}

// leave closes the connection after the peer has had time to read the reason.
func (t *exchange) leave(why error) {
	t.forget()
	giveup.Say(t.Conn, why)
	_ = t.Conn.Close()
}

// sendAddrs sends the addresses of all QPs, padded with empty ones to the number of
// records.
func (t *exchange) sendAddrs(addrs []addr, records int) error {
	var text []byte
	for i := range records {
		var a addr
		if i < len(addrs) {
			a = addrs[i]
		}
		text = a.append(text)
	}
	return t.explain("send this end's address", t.say(text))
}

// recvAddrs receives the addresses of as many QPs as this end has.
func (t *exchange) recvAddrs(qps, records int) ([]addr, error) {
	const doing = "receive the peer's address"
	var addrs []addr
	text := make([]byte, addrSize)
	for range records {
		n, err := io.ReadFull(t, text)
		if err != nil {
			return nil, t.explain(doing, t.short(text[:n], err))
		}
		a, err := parseAddr(text)
		if err != nil {
			return nil, t.explain(doing, err)
		}
		if a.qpn != 0 {
			addrs = append(addrs, a)
		}
	}
	if len(addrs) != qps {
		return nil, t.explain(doing, fmt.Errorf("QPs of the peer: %d, of this end: %d; -q must be the same", len(addrs), qps))
	}
	return addrs, nil
}

// short returns the error for an incomplete message, with the part that arrived.
func (t *exchange) short(got []byte, err error) error {
	switch why := giveup.Complete(got, t); {
	case why != nil:
		return why
	case len(got) > 0:
		return fmt.Errorf("%q: %w (%w)", got, errNotPingpong, err)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("it closed the connection; its output should say why (%w)", err)
	}
	return err
}

// ready sends the last message of the exchange, the client's.
func (t *exchange) ready() error {
	return t.explain("ask the server to begin", t.say([]byte(done)))
}

func (t *exchange) say(text []byte) error {
	_, err := t.Write(text)
	if err == nil || t.ctx.Err() != nil {
		return err
	}
	return cmp.Or(giveup.Unread(t), err)
}

func (t *exchange) awaitReady() error {
	const doing = "hear that the client is ready"
	text := make([]byte, len(done))
	n, err := io.ReadFull(t, text)
	if err != nil {
		return t.explain(doing, t.short(text[:n], err))
	}
	if why := giveup.Complete(text, t); why != nil {
		return t.explain(doing, why)
	}
	if string(text) != done {
		return t.explain(doing, fmt.Errorf("%q: %w", text, errNotPingpong))
	}
	return nil
}

// explain adds the peer and the step to an error of the exchange.
func (t *exchange) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	if t.ctx.Err() != nil {
		return peer.Interrupted(t.ctx.Err())
	}
	return fmt.Errorf("%s (%v): %w", doing, t.RemoteAddr(), err)
}

// meet finds the other end.
func (p *session) meet(ctx context.Context) (*exchange, error) {
	conn, err := peer.Meet(ctx, p.host, p.tcpPort)
	if err != nil {
		return nil, err
	}
	return talk(ctx, conn), nil
}

// addr is the address of a QP, as the ends exchange it. On the wire it is text of
// fixed length, followed by a NUL.
//
// C: struct pingpong_dest
type addr struct {
	lid uint16
	qpn uint32 // 24 bits, 0 if there is no QP
	psn uint32 // 24 bits
	gid verbs.GID
}

const addrSize = len("0000:000000:000000:00000000000000000000000000000000") + 1

// done is how the client says that it is ready.
const done = "done\x00"

func (a addr) append(b []byte) []byte {
	return fmt.Appendf(b, "%04x:%06x:%06x:%x\x00", a.lid, a.qpn, a.psn, a.gid[:])
}

var errNotPingpong = errors.New("not a message of a pingpong program")

func parseAddr(b []byte) (a addr, err error) {
	bad := func() (addr, error) {
		return addr{}, fmt.Errorf("%.60q: %w", b, errNotPingpong)
	}
	text, nul := bytes.CutSuffix(b, []byte{0})
	fields := bytes.Split(text, []byte{':'})
	if !nul || len(b) != addrSize || len(fields) != 4 || len(fields[3]) != 2*len(a.gid) {
		return bad()
	}
	var numbers [3]uint32
	for i, digits := range []int{4, 6, 6} {
		n, err := strconv.ParseUint(string(fields[i]), 16, 4*digits)
		if err != nil || len(fields[i]) != digits {
			return bad()
		}
		numbers[i] = uint32(n)
	}
	if _, err := hex.Decode(a.gid[:], fields[3]); err != nil {
		return bad()
	}
	a.lid, a.qpn, a.psn = uint16(numbers[0]), numbers[1], numbers[2]
	return a, nil
}
