package pingpong

import (
	"errors"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// report is how a run went: in C's words, or as -j prints it.
type report struct {
	Kind      string  `json:"kind"`
	Role      string  `json:"role"`
	Device    string  `json:"device"`
	Local     []place `json:"local"` // a QP each
	Remote    []place `json:"remote"`
	Size      int     `json:"size"`
	Exchanges int     `json:"exchanges"`
	Bytes     int64   `json:"bytes"` // there and back
	Seconds   float64 `json:"seconds"`
	Error     string  `json:"error,omitempty"`

	session *session
	began   time.Time
}

// place is an address for readers.
type place struct {
	LID uint16 `json:"lid"`
	QPN uint32 `json:"qpn"`
	PSN uint32 `json:"psn"`
	GID string `json:"gid"`
}

func (p *session) begin(e *end) *report {
	role := "client"
	if p.host == "" {
		role = "server"
	}
	return &report{
		Kind: p.kind.Name, Role: role, Device: e.dev.Info().Name, Size: p.size, session: p,
		Local: []place{}, Remote: []place{},
	}
}

// print prints text that the JSON output does not contain.
func (r *report) print(format string, args ...any) error {
	if r.session.JSON {
		return nil
	}
	return r.session.Printf(format, args...)
}

func (r *report) local(addrs []addr) error {
	separator := ","
	if r.session.kind.front > 0 {
		separator = ":" // so does ibv_ud_pingpong
	}
	return r.addresses(&r.Local, "  local address:  ", separator, addrs)
}

func (r *report) remote(addrs []addr) error {
	return r.addresses(&r.Remote, "  remote address: ", ",", addrs)
}

func (r *report) addresses(to *[]place, what, separator string, addrs []addr) error {
	for _, a := range addrs {
		*to = append(*to, place{a.lid, a.qpn, a.psn, a.gid.String()})
		if err := r.print("%sLID 0x%04x, QPN 0x%06x, PSN 0x%06x%s GID %v\n", what, a.lid, a.qpn, a.psn, separator, a.gid); err != nil {
			return err
		}
	}
	return nil
}

func (r *report) start() { r.began = time.Now() }

func (r *report) stop(exchanges int) {
	r.Seconds = time.Since(r.began).Seconds()
	r.Exchanges = min(exchanges, r.session.iters)
	r.Bytes = 2 * int64(r.Size) * int64(r.Exchanges)
}

func (r *report) times() error {
	usec := 1e6 * r.Seconds
	err := r.print("%d bytes in %.2f seconds = %.2f Mbit/sec\n", r.Bytes, r.Seconds, float64(r.Bytes)*8/usec)
	return errors.Join(err, r.print("%d iters in %.2f seconds = %.2f usec/iter\n", r.Exchanges, r.Seconds, usec/float64(r.Exchanges)))
}

// finish prints the report if it was asked for, and returns the failures.
func (r *report) finish(err error) error {
	if !r.session.JSON {
		return err
	}
	if err != nil {
		r.Error = cli.Plain(err)
	}
	return errors.Join(err, r.session.WriteJSON(r))
}
