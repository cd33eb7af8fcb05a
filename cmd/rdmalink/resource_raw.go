package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// showRaw prints what the device holds of its objects: bytes in hexadecimal
// or, as JSON, an array of numbers.
func (s *resourceShow) showRaw() error {
	var get func(uint32) ([]byte, error)
	if s.kind.raw != netlinkrdma.RawQP || s.port != 0 {
		get = func(number uint32) ([]byte, error) {
			return s.t.RDMA.GetRaw(s.dev.Index, s.kind.raw, s.port, number)
		}
	}
	err := forEach(s, s.kind.number, s.t.RDMA.DumpRaw(s.dev.Index, s.kind.raw, s.options()), get, s.rawData)
	s.hadRaw = s.hadRaw || err == nil
	if errors.Is(err, netlinkrdma.ErrNoRaw) {
		s.noRaw = cmp.Or(s.noRaw, host.Named(s.dev, err))
		return nil // another device may have some
	}
	return err
}

func (s *resourceShow) rawData(raw []byte) {
	if s.kind.raw == netlinkrdma.RawQP {
		s.beginOnLink(0)
	} else {
		s.beginOnDevice()
	}
	if s.p.json {
		s.p.list("data", len(raw), func(i int) { s.p.number(uint64(raw[i])) })
	} else {
		s.p.word("data", fmt.Sprintf("%x", raw))
	}
	s.p.end(0)
}
