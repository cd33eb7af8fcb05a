package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/rdmacm"
)

// rpingReport is how a connection went, as -j prints it.
type rpingReport struct {
	Role    string         `json:"role"`
	Local   netip.AddrPort `json:"local"`
	Peer    netip.AddrPort `json:"peer"`
	Device  string         `json:"device"`
	Pings   int            `json:"pings"`
	Bytes   int64          `json:"bytes"` // there and back
	Seconds float64        `json:"seconds"`
	Error   string         `json:"error,omitempty"`

	rping *rping
	start time.Time
}

func (r *rping) begin(role string, conn *rdmacm.Conn) *rpingReport {
	return &rpingReport{
		Role: role, Local: conn.LocalAddr(), Peer: conn.RemoteAddr(), Device: conn.Device().Info().Name,
		rping: r, start: time.Now(),
	}
}

// add counts a ping that went well.
func (p *rpingReport) add(size int) {
	p.Pings++
	p.Bytes += 2 * int64(size)
}

// finish prints the report if it was asked for, and returns the failures.
func (p *rpingReport) finish(errs ...error) error {
	err := errors.Join(errs...)
	if !p.rping.JSON {
		return err
	}
	p.Seconds = time.Since(p.start).Seconds()
	if err != nil {
		p.Error = cli.Plain(err)
	}
	line, encodeErr := json.Marshal(p)
	if encodeErr == nil {
		_, encodeErr = p.rping.Stdout.Write(append(line, '\n'))
	}
	return errors.Join(err, encodeErr)
}

// show prints ping data in rping's words.
func (r *rping) show(what string, data []byte) error {
	if !r.verbose || r.JSON {
		return nil
	}
	_, err := fmt.Fprintf(r.Stdout, "%s: %s\n", what, pingText(data))
	return err
}
