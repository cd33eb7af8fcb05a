package netlinkrdma

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/internal/abi"
)

// Counter is a counter of a device or its driver.
type Counter struct {
	Name  string // the driver's name, for instance rcvd_pkts
	Value uint64
}

// PortCounters reads the counters of a port, including the optional counters that are
// enabled. Their values include those of counters that are bound to QPs. A driver without
// counters, such as siw, returns [ErrNoStatistics].
//
// C: rdma statistic show link DEV/PORT
func (c *Client) PortCounters(device uint32, port int) ([]Counter, error) {
	op := operation{"read the counters of", portOf(device, port)}
	reply, err := c.callOne(op, Request{Op: abi.RDMA_NLDEV_CMD_STAT_GET, Attrs: byPort(device, port)})
	if err != nil {
		return nil, err
	}
	counters, err := parsePortCounters(reply)
	if err != nil {
		return nil, op.failed(err)
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

// parseCounters parses a table of counters.
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

// counterEntries calls f with each entry of a table of counters.
func counterEntries(a *attributes, f func(entry *attributes)) {
	a.nested(func(table *attributes) {
		for table.next() {
			if table.typ == abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY {
				table.nested(f)
			}
		}
	})
}

// counted returns the attribute for the kind of object that is counted: QPs or MRs.
func counted(typ uint16) Attr {
	return Attr{abi.RDMA_NLDEV_ATTR_STAT_RES, uint32Value(uint32(typ))}
}

// CounterStatus is a counter of a port and whether it is enabled.
type CounterStatus struct {
	Name     string
	Index    uint32 // the kernel's number
	Optional bool   // it slows the device down, and can be turned on and off
	Enabled  bool
}

// CounterStatus lists the counters of a port, including the optional counters that are off.
// rdma lists only the optional ones.
//
// C: rdma statistic mode supported link DEV/PORT
func (c *Client) CounterStatus(device uint32, port int) ([]CounterStatus, error) {
	op := operation{"list the counters of", portOf(device, port)}
	reply, err := c.callOne(op, Request{Op: abi.RDMA_NLDEV_CMD_STAT_GET_STATUS, Attrs: byPort(device, port)})
	if err != nil {
		return nil, err
	}
	list, err := parseCounterStatus(reply)
	if err != nil {
		return nil, op.failed(err)
	}
	return list, nil
}

func parseCounterStatus(reply []byte) ([]CounterStatus, error) {
	var list []CounterStatus
	table := false
	a := attributes{rest: reply}
	for a.next() {
		if a.typ == abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS {
			table = true
			counterEntries(&a, func(entry *attributes) { list = append(list, parseStatusEntry(entry)) })
		}
	}
	a.require(table, abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS)
	if a.err != nil {
		return nil, a.err
	}
	return list, nil
}

func parseStatusEntry(entry *attributes) CounterStatus {
	s := CounterStatus{Enabled: true}
	index := false
	for entry.next() {
		switch entry.typ {
		case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME:
			s.Name = entry.string()
		case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX:
			s.Index, index = entry.uint32(), true
		case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC:
			s.Enabled, s.Optional = entry.uint8() != 0, true
		}
	}
	entry.require(s.Name != "", abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME)
	entry.require(index, abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX)
	return s
}

// SetOptionalCounters turns on the optional counters with these names, and turns off all
// other optional counters. It needs CAP_NET_ADMIN. If the port has no counter of a given
// name, the call returns [ErrNoObject] and changes nothing.
//
// C: rdma statistic set link DEV/PORT optional-counters NAMES, rdma statistic unset link DEV/PORT optional-counters
func (c *Client) SetOptionalCounters(device uint32, port int, names ...string) error {
	op := operation{"set optional counters of", fmt.Sprintf("%s to [%s]", portOf(device, port), strings.Join(names, " "))}
	indexes, err := c.optionalIndexes(op, device, port, names)
	if err != nil {
		return err
	}
	_, err = c.callOne(op, Request{
		Op:    abi.RDMA_NLDEV_CMD_STAT_SET,
		Attrs: append(byPort(device, port), nestedAttr(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, indexes...)),
	})
	return statHints(err)
}

// optionalIndexes returns the kernel's numbers of optional counters.
func (c *Client) optionalIndexes(op operation, device uint32, port int, names []string) ([]Attr, error) {
	if len(names) == 0 {
		return nil, nil
	}
	list, err := c.CounterStatus(device, port)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(s CounterStatus) bool { return !s.Optional })
	var indexes []Attr
	for _, name := range names {
		i := slices.IndexFunc(list, func(s CounterStatus) bool { return s.Name == name })
		if i < 0 {
			return nil, op.failed(noCounter(name, list))
		}
		indexes = append(indexes, Attr{abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX, uint32Value(list[i].Index)})
	}
	return indexes, nil
}

func noCounter(name string, list []CounterStatus) error {
	if len(list) == 0 {
		return fmt.Errorf("%w: optional counter %q (the port has none)", ErrNoObject, name)
	}
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.Name
	}
	return fmt.Errorf("%w: optional counter %q (available: %s)", ErrNoObject, name, strings.Join(names, ", "))
}

// MRCounters are the counters of one memory region. Most drivers have none. mlx5 counts the
// page faults of on-demand paging.
type MRCounters struct {
	MRN      uint32
	Counters []Counter
}

var mrCounterResource = tracked[MRCounters]{
	name: "MR counter", op: abi.RDMA_NLDEV_CMD_STAT_GET, stat: abi.RDMA_NLDEV_ATTR_RES_MR,
	table: abi.RDMA_NLDEV_ATTR_RES_MR, entry: abi.RDMA_NLDEV_ATTR_RES_MR_ENTRY, id: abi.RDMA_NLDEV_ATTR_RES_MRN,
	parse: parseMRCounters, number: func(m *MRCounters) uint32 { return m.MRN },
}

// AllMRCounters yields the counters of the memory regions of the device with this index
// while the kernel lists them. It ends after an error.
//
// C: rdma statistic mr show
func (c *Client) AllMRCounters(device uint32, o *ListOptions) iter.Seq2[MRCounters, error] {
	return mrCounterResource.dump(c, device, o)
}

// MRCounters returns the counters of the memory region with this number.
func (c *Client) MRCounters(device, mrn uint32) (MRCounters, error) {
	return mrCounterResource.get(c, device, 0, mrn)
}

func parseMRCounters(a *attributes, m *MRCounters) {
	mrn := false
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_RES_MRN:
			m.MRN, mrn = a.uint32(), true
		case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS:
			m.Counters = parseCounters(a)
		}
	}
	a.require(mrn, abi.RDMA_NLDEV_ATTR_RES_MRN)
}
