package netlinkrdma

import (
	"bytes"
	"fmt"
	"iter"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// RawKind is a kind of object whose raw data a driver may support. Raw data is the device's
// own record of an object, in the vendor's format.
type RawKind uint8

// The kinds. RawSRQ needs Linux 6.5.
const (
	RawQP RawKind = iota
	RawCQ
	RawMR
	RawSRQ
)

var rawResources = [...]tracked[[]byte]{
	RawQP:  rawOf("QP", abi.RDMA_NLDEV_CMD_RES_QP_GET_RAW, qpResource.table, qpResource.entry, qpResource.id),
	RawCQ:  rawOf("CQ", abi.RDMA_NLDEV_CMD_RES_CQ_GET_RAW, cqResource.table, cqResource.entry, cqResource.id),
	RawMR:  rawOf("MR", abi.RDMA_NLDEV_CMD_RES_MR_GET_RAW, mrResource.table, mrResource.entry, mrResource.id),
	RawSRQ: rawOf("SRQ", abi.RDMA_NLDEV_CMD_RES_SRQ_GET_RAW, srqResource.table, srqResource.entry, srqResource.id),
}

func rawOf(name string, op, table, entry, id uint16) tracked[[]byte] {
	return tracked[[]byte]{name: "raw " + name, op: op, table: table, entry: entry, id: id, parse: parseRaw}
}

// RawObjects yields the raw data of the device's objects of one kind. The kernel sends no
// numbers with them. RawObjects ends after an error. It needs CAP_NET_ADMIN. Drivers without
// raw data, such as siw and rxe, return [ErrNoRaw].
//
// C: rdma resource show qp -r
func (c *Client) RawObjects(device uint32, kind RawKind, o *ListOptions) iter.Seq2[[]byte, error] {
	if err := kind.check(); err != nil {
		return func(yield func([]byte, error) bool) { yield(nil, err) }
	}
	return rawResources[kind].dump(c, device, o)
}

// RawObject returns the raw data of the object with this number. port is that of a QP, and 0
// for the other kinds.
func (c *Client) RawObject(device uint32, kind RawKind, port int, number uint32) ([]byte, error) {
	if err := kind.check(); err != nil {
		return nil, err
	}
	if kind == RawQP {
		return getQP(c, &rawResources[kind], device, port, number)
	}
	return rawResources[kind].get(c, device, port, number)
}

// check returns an error if the kind is not one of the constants.
func (k RawKind) check() error {
	if int(k) < len(rawResources) {
		return nil
	}
	return operation{"read", fmt.Sprintf("RawKind(%d)", k)}.failed(fmt.Errorf("%w: %w", ErrNoRaw, syscall.EINVAL))
}

func parseRaw(a *attributes, raw *[]byte) {
	found := false
	for a.next() {
		if a.typ == abi.RDMA_NLDEV_ATTR_RES_RAW {
			*raw, found = bytes.Clone(a.value), true
		}
	}
	a.require(found, abi.RDMA_NLDEV_ATTR_RES_RAW)
}
