package rping

import (
	"errors"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// report is how a connection went, as -j prints it.
type report struct {
	Role    string         `json:"role"`
	Local   netip.AddrPort `json:"local"`
	Peer    netip.AddrPort `json:"peer"`
	Device  string         `json:"device"`
	Pings   int            `json:"pings"`
	Bytes   int64          `json:"bytes"` // there and back
	Seconds float64        `json:"seconds"`
	Error   string         `json:"error,omitempty"`

	session *session
	start   time.Time
}

func (r *session) begin(role string, e *end) *report {
	conn := e.conn
	e.debug("connected: %v to %v over %s, QP %#x", conn.LocalAddr(), conn.RemoteAddr(), conn.Device().Info().Name, conn.QP().QPN())
	return &report{
		Role: role, Local: conn.LocalAddr(), Peer: conn.RemoteAddr(), Device: conn.Device().Info().Name,
		session: r, start: time.Now(),
	}
}

// add counts a ping that went well.
func (p *report) add(size int) {
	p.Pings++
	p.Bytes += 2 * int64(size)
}

// finish prints the report if it was asked for, and returns the failures.
func (p *report) finish(errs ...error) error {
	err := errors.Join(errs...)
	if !p.session.JSON {
		return err
	}
	p.Seconds = time.Since(p.start).Seconds()
	if err != nil {
		p.Error = cli.Plain(err)
	}
	return errors.Join(err, p.session.WriteJSON(p))
}

// show prints ping data in rping's words. The data is the peer's.
func (r *session) show(what string, data []byte) error {
	if !r.verbose || r.JSON {
		return nil
	}
	return r.Printf("%s: %s\n", what, cli.Printable(string(pingText(data))))
}
