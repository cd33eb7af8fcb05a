package main

import (
	"context"
	"strconv"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/netlinkrdma"
)

var frmrKeys = []filterKey{
	{"dev", false}, {"ats", true}, {"access_flags", true}, {"vendor_key", true}, {"num_dma_blocks", true},
	{"queue", true}, {"in_use", true}, {"max_in_use", true}, {"pinned", true},
}

func showFRMRPools(s *resourceShow) error {
	return forEach(s, "", s.t.RDMA.DumpFRMRPools(s.dev.Index, s.options()), nil, s.frmrPool)
}

func (s *resourceShow) frmrPool(r netlinkrdma.FRMRPool) {
	if !s.passFRMR(&r) {
		return
	}
	s.beginOnDevice()
	s.p.word("key", r.Key.String())
	if s.t.Details > 0 {
		s.p.uint("ats", bit(r.Key.ATS))
		s.p.uint("access_flags", uint64(r.Key.AccessFlags))
		s.p.uint("vendor_key", r.Key.VendorKey)
		s.p.uint("num_dma_blocks", r.Key.DMABlocks)
		if r.KernelVendorKey != 0 {
			s.p.uint("kernel_vendor_key", r.KernelVendorKey)
		}
	}
	s.p.uint("queue", uint64(r.Queued))
	s.p.uint("in_use", r.InUse)
	s.p.uint("max_in_use", r.MaxInUse)
	s.p.uint("pinned", uint64(r.Pinned))
	s.p.end(0)
}

func (s *resourceShow) passFRMR(r *netlinkrdma.FRMRPool) bool {
	for key, v := range map[string]uint64{
		"ats": bit(r.Key.ATS), "access_flags": uint64(r.Key.AccessFlags), "vendor_key": r.Key.VendorKey, "num_dma_blocks": r.Key.DMABlocks,
		"queue": uint64(r.Queued), "in_use": r.InUse, "max_in_use": r.MaxInUse, "pinned": uint64(r.Pinned),
	} {
		if !s.f.number(key, v, true) {
			return false
		}
	}
	return true
}

func bit(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

func resourceSetCommand() command {
	return command{
		names:   []string{"set"},
		summary: "change what the kernel keeps of a device's memory regions",
		sub: []command{{
			names:   []string{"frmr_pools"},
			args:    "dev DEV { aging SECONDS | pinned KEY HANDLES }",
			summary: "say how long unused handles stay in a pool, or how many stay for ever",
			details: `
A driver may keep handles of memory regions in pools, so that registering needs
no command to the device. A handle that nobody uses for SECONDS is freed; of the
pool with KEY at least HANDLES are kept, and made if they are missing. KEY is what
resource show frmr_pools prints, four fields in hexadecimal:
VENDOR_KEY:DMA_BLOCKS:ACCESS_FLAGS:ATS.

It needs CAP_NET_ADMIN, Linux 7.2, and a driver with such pools.`,
			run: setFRMRPools,
		}, helpCommand("resource", "set")},
	}
}

func setFRMRPools(_ context.Context, t *tool, w *words) error {
	if err := w.keyword("dev"); err != nil {
		return err
	}
	name, err := w.value("DEV")
	if err != nil {
		return err
	}
	var change func(device uint32) error
	switch {
	case w.keyword("aging") == nil:
		change, err = setFRMRAging(t, w)
	case w.keyword("pinned") == nil:
		change, err = pinFRMR(t, w)
	default:
		err = cli.Expected(w.peek(), "aging", "pinned")
	}
	if err != nil {
		return err
	}
	if err := w.end(); err != nil {
		return err
	}
	return t.change("set frmr_pools", name, change)
}

// setFRMRAging and pinFRMR read what is to be changed of a device.
func setFRMRAging(t *tool, w *words) (func(device uint32) error, error) {
	seconds, err := uint32Word(w, "SECONDS", 1)
	return func(d uint32) error { return t.RDMA.SetFRMRAging(d, time.Duration(seconds)*time.Second) }, err
}

func pinFRMR(t *tool, w *words) (func(device uint32) error, error) {
	text, err := w.value("KEY")
	if err != nil {
		return nil, err
	}
	key, err := netlinkrdma.ParseFRMRPoolKey(text)
	if err != nil {
		return nil, cli.UsageError{Text: cli.Plain(err)}
	}
	handles, err := uint32Word(w, "HANDLES", 0)
	return func(d uint32) error { return t.RDMA.PinFRMR(d, key, handles) }, err
}

// uint32Word takes a number.
func uint32Word(w *words, what string, least uint32) (uint32, error) {
	text, err := w.value(what)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(text, 10, 32)
	if err != nil || uint32(v) < least {
		return 0, cli.Expected(text, what+", a number from "+strconv.FormatUint(uint64(least), 10)+" to 4294967295")
	}
	return uint32(v), nil
}
