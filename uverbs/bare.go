package uverbs

import (
	"errors"
	"syscall"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// bareBytes are the least bytes of its own that a kernel driver wants, so that a
// device opens, and has PDs and MRs, without a provider. What the kernel answers is
// not read: sizes are those of the newest answer known, because some drivers write
// all of it whatever room they are told of.
type bareBytes struct {
	openIn  []byte
	openOut int
	pdOut   int
	mrIn    int // zeros
	mrOut   int
	xrcIn   int // zeros, for target QPs
	xrcOut  int
}

var bareDrivers = map[verbs.DriverID]bareBytes{
	// Two pages of registers, CQEs of version 1, and no register for the context
	// where the kernel can do without.
	// C: struct mlx5_ib_alloc_ucontext_req_v2
	verbs.DriverMLX5: {openIn: []byte{0: 16, 4: 4, 16: 1, 24: 3, 31: 0}, openOut: 72, pdOut: 4, xrcIn: 56, xrcOut: 40},
	verbs.DriverMLX4: {openOut: 16, pdOut: 4},
	// The capabilities of batches and of a smallest send queue, without which some
	// devices refuse.
	// C: struct efa_ibv_alloc_ucontext_cmd
	verbs.DriverEFA: {openIn: []byte{0: 3, 7: 0}, openOut: 24},
	// C: struct erdma_uresp_alloc_ctx
	verbs.DriverERDMA: {openOut: 40},
	// The version of the interface. An answer of 16 bytes would ask for hardware of
	// the first generation.
	// C: struct irdma_alloc_ucontext_req
	verbs.DriverIRDMA: {openIn: []byte{4: 5, 15: 0}, openOut: 80, pdOut: 8, mrIn: 8},
	verbs.DriverIonic: {openIn: make([]byte, 8), openOut: 40},
	// Less room turns off a page of the whole device.
	// C: struct c4iw_alloc_ucontext_resp
	verbs.DriverCXGB4:  {openOut: 16, pdOut: 4},
	verbs.DriverOCRDMA: {openOut: 80, pdOut: 24},
	verbs.DriverMTHCA:  {openOut: 8, pdOut: 4},
	verbs.DriverPVRDMA: {openOut: 8, pdOut: 8},
	verbs.DriverSIW:    {openOut: 8, mrIn: 8, mrOut: 8},
}

// bare is what goes to the kernel where no provider takes part. Devices with a
// provider get nothing of it.
func (d *Device) bare() bareBytes {
	if d.provider != nil {
		return bareBytes{}
	}
	return bareDrivers[d.info.Driver]
}

func (b bareBytes) open() driver.UHW { return driver.UHW{In: b.openIn, Out: room(b.openOut)} }
func (b bareBytes) pd() driver.UHW   { return driver.UHW{Out: room(b.pdOut)} }
func (b bareBytes) mr() driver.UHW   { return driver.UHW{In: room(b.mrIn), Out: room(b.mrOut)} }

func (b bareBytes) target() driver.UHW {
	return driver.UHW{In: room(b.xrcIn), Out: room(b.xrcOut)}
}

func room(n int) []byte {
	if n == 0 {
		return nil
	}
	return make([]byte, n)
}

// openBare opens the device for what needs no provider.
func (d *Device) openBare() error {
	err := d.issueGetContext(d.bare().open(), nil)
	if err == nil {
		return nil
	}
	hint := contextHint(err)
	if _, known := bareDrivers[d.info.Driver]; hint == "" && !known && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EFAULT)) {
		hint = "this kernel driver may want bytes of its own, which only a provider for it knows"
	}
	return d.fail("open", err, hint)
}
