package ioctl

import "github.com/goverbs/goverbs/internal/abi"

// Driver adds the driver-private bytes that a call carries, unread, to and from the
// kernel's driver; nil adds nothing.
func (r *Request) Driver(in, out []byte) {
	r.InBytes(abi.UVERBS_ATTR_UHW_IN, in)
	r.OutBytes(abi.UVERBS_ATTR_UHW_OUT, out)
}
