package mlx5

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// ece holds a QP's options of enhanced connection establishment.
type ece struct {
	offered       bool   // the device and its kernel have options
	options, want uint32 // those in force, and those to ask for with the next modification
}

const (
	vendorMellanox = 0x15b3
	askECE         = 1 << 28 // at creation: for the options that the device offers
)

func (c *mlx5Context) hasECE() bool {
	return c.limits.CompMask&abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE != 0
}

var errNoECE = fmt.Errorf("%w: this mlx5 device or its kernel does not support enhanced connection establishment (ECE)", verbs.ErrNotSupported)

// ECE implements driver.ECESetter.
func (e *ece) ECE() (verbs.ECE, error) {
	if !e.offered {
		return verbs.ECE{}, errNoECE
	}
	return verbs.ECE{VendorID: vendorMellanox, Options: e.options}, nil
}

// SetECE implements driver.ECESetter.
func (e *ece) SetECE(to verbs.ECE) error {
	switch {
	case !e.offered:
		return errNoECE
	case to.VendorID != vendorMellanox:
		return fmt.Errorf("%w: ECE options of vendor %#x, but the device has those of %#x", verbs.ErrNotSupported, to.VendorID, vendorMellanox)
	}
	e.want, e.options = to.Options, 0
	return nil
}

// modify modifies the QP in the kernel, with private bytes if there are any.
func (e *ece) modify(r *driver.ModifyQP) error {
	in := e.input(r)
	switch {
	case in == (abi.Mlx5IbModifyQp{}):
		return r.Do(driver.UHW{})
	case e.want == 0:
		return r.Do(driver.UHW{In: abi.Bytes(&in)})
	}
	_, err := e.ask(r)
	return err
}

func (e *ece) input(r *driver.ModifyQP) abi.Mlx5IbModifyQp {
	in := abi.Mlx5IbModifyQp{EceOptions: e.want}
	if r.Mask&verbs.QPAttrRateLimit != 0 {
		in.BurstInfo.MaxBurstSz, in.BurstInfo.TypicalPktSz = r.Attr.MaxBurst, r.Attr.TypicalPacket
	}
	return in
}

// ask modifies the QP and returns the kernel's private bytes.
func (e *ece) ask(r *driver.ModifyQP) (out abi.Mlx5IbModifyQpResp, err error) {
	in := e.input(r)
	if err := r.Do(driver.UHW{In: abi.Bytes(&in), Out: abi.Bytes(&out)}); err != nil {
		return out, err
	}
	if e.want != 0 {
		e.want, e.options = 0, out.EceOptions
	}
	return out, nil
}
