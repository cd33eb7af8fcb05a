package netlinkrdma

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
)

// Resource counts the objects of one kind that live on a device, those of the
// kernel's own users included.
type Resource struct {
	Kind  string // pd, cq, qp, cm_id, mr, ctx, srq
	Count uint64
}

// Resources counts the objects that live on the device with this index, in
// the kernel's order. With o.DriverDetails the driver's own are counted too.
//
// C: rdma resource show
func (c *Client) Resources(device uint32, o *DumpOptions) ([]Resource, error) {
	what := fmt.Sprintf("count resources of RDMA device %d", device)
	reply, err := c.callOne(what, Request{
		Op: abi.RDMA_NLDEV_CMD_RES_GET, Attrs: o.attrs(device),
	})
	if err != nil {
		return nil, err
	}
	resources, err := parseResources(reply)
	if err != nil {
		return nil, fmt.Errorf("netlinkrdma: %s: %w", what, err)
	}
	return resources, nil
}

func parseResources(reply []byte) ([]Resource, error) {
	var all []Resource
	a := attributes{rest: reply}
	for a.next() {
		if a.typ == abi.RDMA_NLDEV_ATTR_RES_SUMMARY {
			a.nested(func(summary *attributes) { all = parseSummary(summary) })
		}
	}
	if a.err != nil {
		return nil, a.err
	}
	return all, nil
}

func parseSummary(a *attributes) []Resource {
	var all []Resource
	for a.next() {
		if a.typ != abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY {
			continue
		}
		var r Resource
		a.nested(func(entry *attributes) { r = parseSummaryEntry(entry) })
		all = append(all, r)
	}
	return all
}

func parseSummaryEntry(a *attributes) Resource {
	var r Resource
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME:
			r.Kind = a.string()
		case abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR:
			r.Count = a.uint64()
		}
	}
	a.require(r.Kind != "", abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME)
	return r
}
