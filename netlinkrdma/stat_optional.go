package netlinkrdma

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/internal/abi"
)

// CounterStatus is a counter that a port has, or could have.
type CounterStatus struct {
	Name     string
	Index    uint32 // the kernel's number of it
	Optional bool   // it costs something, and is off until it is asked for
	Enabled  bool
}

// CounterStatus lists the counters of a port, the optional ones that are off
// included. Those with Optional are what rdma calls supported.
//
// C: rdma statistic mode supported link DEV/PORT
func (c *Client) CounterStatus(device, port uint32) ([]CounterStatus, error) {
	what := fmt.Sprintf("list the counters of port %d of RDMA device %d", port, device)
	reply, err := c.callOne(what, Request{Op: abi.RDMA_NLDEV_CMD_STAT_GET_STATUS, Attrs: byPort(device, port)})
	if err != nil {
		return nil, err
	}
	list, err := parseCounterStatus(reply)
	if err != nil {
		return nil, fmt.Errorf("netlinkrdma: %s: %w", what, err)
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

// SetOptionalCounters turns on the optional counters with these names and turns
// all others off; without names it turns off all. It needs CAP_NET_ADMIN. A name
// the port does not have is an [ErrNoObject], and nothing is changed.
//
// C: rdma statistic set link DEV/PORT optional-counters NAMES, rdma statistic unset link DEV/PORT optional-counters
func (c *Client) SetOptionalCounters(device, port uint32, names ...string) error {
	what := fmt.Sprintf("set optional counters of port %d of RDMA device %d to [%s]", port, device, strings.Join(names, " "))
	indexes, err := c.optionalIndexes(what, device, port, names)
	if err != nil {
		return err
	}
	_, err = c.callOne(what, Request{
		Op:    abi.RDMA_NLDEV_CMD_STAT_SET,
		Attrs: append(byPort(device, port), nestedAttr(abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, indexes...)),
	})
	return statRemedy(err)
}

// optionalIndexes finds the kernel's numbers of optional counters.
func (c *Client) optionalIndexes(what string, device, port uint32, names []string) ([]Attr, error) {
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
			return nil, fmt.Errorf("netlinkrdma: %s: %w", what, noCounter(name, list))
		}
		indexes = append(indexes, Attr{abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX, uint32Value(list[i].Index)})
	}
	return indexes, nil
}

func noCounter(name string, list []CounterStatus) error {
	if len(list) == 0 {
		return fmt.Errorf("%w: optional counter %q (the port has none at all)", ErrNoObject, name)
	}
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.Name
	}
	return fmt.Errorf("%w: optional counter %q (there are: %s)", ErrNoObject, name, strings.Join(names, ", "))
}
