package netlinkrdma

import "github.com/goverbs/goverbs/internal/abi"

// Opt is a value that the kernel may leave out.
type Opt[T any] struct {
	Value T
	Known bool
}

// known is a value that was sent.
func known[T any](v T) Opt[T] { return Opt[T]{v, true} }

// Owner tells who made an object. A process that is dying, and one outside
// the caller's PID namespace, has neither.
type Owner struct {
	PID    uint32 // of the process, in the caller's PID namespace; 0 when the kernel does not say
	Kernel string // the kernel module, for instance ib_core; empty when a process made it
}

// parseCommon reads what objects of all kinds have.
func parseCommon(a *attributes, o *Owner, d *[]DriverAttr) {
	if a.typ == abi.RDMA_NLDEV_ATTR_DRIVER {
		*d = parseDriver(a)
		return
	}
	parseOwner(a, o)
}

func parseOwner(a *attributes, o *Owner) {
	switch a.typ {
	case abi.RDMA_NLDEV_ATTR_RES_PID:
		o.PID = a.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_KERN_NAME:
		o.Kernel = a.string()
	}
}
