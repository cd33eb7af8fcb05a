package rdma

import (
	"context"
	"strconv"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/netlinkrdma"
)

var frmrKeys = []cli.FilterKey{
	cli.WordKey("dev"), cli.NumberKey("ats"), cli.NumberKey("access_flags"), cli.NumberKey("vendor_key"), cli.NumberKey("num_dma_blocks"),
	cli.NumberKey("queue"), cli.NumberKey("in_use"), cli.NumberKey("max_in_use"), cli.NumberKey("pinned"),
}

func showFRMRPools(s *resourceShow) error {
	return forEach(s, "", s.t.RDMA.FRMRPools(s.dev.Index, s.options()), nil, s.frmrPool)
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
		if !s.f.Number(key, v, true) {
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

func resourceSetCommand() cli.Command {
	return cli.Command{
		Names:   []string{"set"},
		Summary: "change settings of a device's memory region pools",
		Sub: []cli.Command{{
			Names:   []string{"frmr_pools"},
			Args:    "dev DEV { aging SECONDS | pinned KEY HANDLES }",
			Summary: "set how long unused handles stay in a pool, or how many stay forever",
			Details: `
A driver may keep handles of memory regions in pools, so that a registration needs
no command to the device. aging: the driver frees a handle that was unused for
SECONDS. pinned: the pool with KEY keeps at least HANDLES handles; the driver creates
them if necessary. KEY is printed by resource show frmr_pools: four fields in
hexadecimal, VENDOR_KEY:DMA_BLOCKS:ACCESS_FLAGS:ATS.

This needs CAP_NET_ADMIN, Linux 7.2, and a driver with such pools.`,
			Run: setFRMRPools,
		}, cli.HelpCommand("resource", "set")},
	}
}

func setFRMRPools(_ context.Context, t *cli.Tool, w *cli.Words) error {
	if err := w.Keyword("dev"); err != nil {
		return err
	}
	name, err := w.Value("DEV")
	if err != nil {
		return err
	}
	var change func(device uint32) error
	switch {
	case w.Keyword("aging") == nil:
		change, err = setFRMRAging(t, w)
	case w.Keyword("pinned") == nil:
		change, err = pinFRMR(t, w)
	default:
		err = cli.Expected(w.Peek(), "aging", "pinned")
	}
	if err != nil {
		return err
	}
	if err := w.End(); err != nil {
		return err
	}
	return changeDevice(t, "set frmr_pools", name, change)
}

// setFRMRAging parses SECONDS, and returns the function that applies the setting.
func setFRMRAging(t *cli.Tool, w *cli.Words) (func(device uint32) error, error) {
	seconds, err := uint32Word(w, "SECONDS", 1)
	return func(d uint32) error { return t.RDMA.SetFRMRAging(d, time.Duration(seconds)*time.Second) }, err
}

// pinFRMR parses KEY and HANDLES, and returns the function that applies the setting.
func pinFRMR(t *cli.Tool, w *cli.Words) (func(device uint32) error, error) {
	text, err := w.Value("KEY")
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

// uint32Word takes a number that is at least least.
func uint32Word(w *cli.Words, placeholder string, least uint32) (uint32, error) {
	text, err := w.Value(placeholder)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(text, 10, 32)
	if err != nil || uint32(v) < least {
		return 0, cli.Expected(text, placeholder+", a number from "+strconv.FormatUint(uint64(least), 10)+" to 4294967295")
	}
	return uint32(v), nil
}
