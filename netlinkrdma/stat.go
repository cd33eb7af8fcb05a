package netlinkrdma

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
)

// Counter is a number that a device, or its driver, counts.
type Counter struct {
	Name  string // as the driver calls it, for instance rcvd_pkts
	Value uint64
}

// PortCounters reads the counters of a port, with the optional ones that are turned
// on. They include the counts of counters that are bound to QPs. It returns
// [ErrNoStatistics] for a driver that counts nothing, such as siw.
//
// C: rdma statistic show link DEV/PORT
func (c *Client) PortCounters(device, port uint32) ([]Counter, error) {
	what := fmt.Sprintf("read the counters of port %d of RDMA device %d", port, device)
	reply, err := c.callOne(what, Request{Op: abi.RDMA_NLDEV_CMD_STAT_GET, Attrs: byPort(device, port)})
	if err != nil {
		return nil, err
	}
	counters, err := parsePortCounters(reply)
	if err != nil {
		return nil, fmt.Errorf("netlinkrdma: %s: %w", what, err)
	}
	return counters, nil
}

func parsePortCounters(reply []byte) ([]Counter, error) {
	var counters []Counter
	table := false
	a := attributes{rest: reply}
	for a.next() {
		if a.typ == abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS {
			counters, table = parseCounters(&a), true
		}
	}
	a.require(table, abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS)
	if a.err != nil {
		return nil, a.err
	}
	return counters, nil
}

// parseCounters reads a table of counters.
func parseCounters(a *attributes) []Counter {
	var counters []Counter
	counterEntries(a, func(entry *attributes) {
		c := Counter{}
		value := false
		for entry.next() {
			switch entry.typ {
			case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME:
				c.Name = entry.string()
			case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE:
				c.Value, value = entry.uint64(), true
			}
		}
		entry.require(c.Name != "", abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME)
		entry.require(value, abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE)
		counters = append(counters, c)
	})
	return counters
}

// counterEntries lets f read each entry of a table of counters.
func counterEntries(a *attributes, f func(entry *attributes)) {
	a.nested(func(table *attributes) {
		for table.next() {
			if table.typ == abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY {
				table.nested(f)
			}
		}
	})
}

// counted is the attribute that names what is counted: QPs or MRs.
func counted(typ uint16) Attr {
	return Attr{abi.RDMA_NLDEV_ATTR_STAT_RES, uint32Value(uint32(typ))}
}
