package ioctl

import "github.com/goverbs/goverbs/internal/abi"

// UHW is what a call carries between a provider and its kernel driver: bytes
// that the core passes on unread. Nil means that side has nothing to say.
type UHW struct {
	In, Out []byte
}

// Driver adds the driver-private attributes.
func (r *Request) Driver(u UHW) {
	r.InBytes(abi.UVERBS_ATTR_UHW_IN, u.In)
	r.OutBytes(abi.UVERBS_ATTR_UHW_OUT, u.Out)
}
