package netlinkrdma

import (
	"iter"

	"github.com/goverbs/goverbs/internal/abi"
)

// Context is a process's open device.
type Context struct {
	Owner
	CTXN   uint32       // its number
	Driver []DriverAttr // the driver's own attributes
}

var contextResource = tracked[Context]{
	name: "context", op: abi.RDMA_NLDEV_CMD_RES_CTX_GET,
	table: abi.RDMA_NLDEV_ATTR_RES_CTX, entry: abi.RDMA_NLDEV_ATTR_RES_CTX_ENTRY, id: abi.RDMA_NLDEV_ATTR_RES_CTXN,
	parse: parseContext, number: func(x *Context) uint32 { return x.CTXN },
}

// Contexts yields the contexts of the device with this index while
// the kernel lists them. It ends after an error.
//
// C: rdma resource show ctx
func (c *Client) Contexts(device uint32, o *ListOptions) iter.Seq2[Context, error] {
	return contextResource.dump(c, device, o)
}

// Context returns the context with this number.
func (c *Client) Context(device, ctxn uint32) (Context, error) {
	return contextResource.get(c, device, 0, ctxn)
}

func parseContext(a *attributes, x *Context) {
	ctxn := false
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_RES_CTXN:
			x.CTXN, ctxn = a.uint32(), true
		default:
			parseCommon(a, &x.Owner, &x.Driver)
		}
	}
	a.require(ctxn, abi.RDMA_NLDEV_ATTR_RES_CTXN)
}
