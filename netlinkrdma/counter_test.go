package netlinkrdma_test

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/verbs"
)

var (
	counters = []netlinkrdma.Counter{{Name: "rcvd_pkts", Value: 1 << 40}, {Name: "sent_pkts"}}
	status   = []netlinkrdma.CounterStatus{
		{Name: "rcvd_pkts", Index: 0, Enabled: true},
		{Name: "cc_rx_ce_pkts", Index: 4, Optional: true},
		{Name: "cc_rx_cnp_pkts", Index: 5, Optional: true, Enabled: true},
	}
)

func statKernel() *nltest.Kernel {
	k := objectsKernel()
	o := objects
	o.QPCounter = []netlinkrdma.QPCounter{{
		Owner: process, ID: 9, Port: 2, Mode: netlinkrdma.CountersAuto, QPType: opt[verbs.QPType](2),
		LQPN: []netlinkrdma.QPRange{{First: 17, Last: 17}}, Counters: counters,
	}}
	o.MRCounters = []netlinkrdma.MRCounters{{MRN: 1, Counters: counters}, {MRN: 2}}
	k.Objects = map[uint32]nltest.Objects{7: o}
	k.Statistics = map[nltest.PortID]nltest.Statistics{{Device: 7, Port: 1}: {}, {Device: 7, Port: 2}: {
		Counters: counters, Status: status, Setting: netlinkrdma.CounterSetting{Mode: netlinkrdma.CountersAuto, By: netlinkrdma.CountByPID},
	}}
	return k
}

// statCalls are the calls that read counters, with their results for device 7.
func statCalls(c *netlinkrdma.Client, k *nltest.Kernel) []resCall {
	o := k.Objects[7]
	const op = abi.RDMA_NLDEV_CMD_STAT_GET
	return []resCall{
		{"PortCounters", op, counters, func(d uint32) (any, error) { return c.PortCounters(d, 2) }},
		{"QPCounters (list)", op, o.QPCounter, func(d uint32) (any, error) { return all(c.QPCounters(d, nil)) }},
		{"QPCounters of another port (list)", op, []netlinkrdma.QPCounter(nil), func(d uint32) (any, error) {
			return all(c.QPCounters(d, &netlinkrdma.ListOptions{Port: 1}))
		}},
		{"QPCounter", op, o.QPCounter[0], func(d uint32) (any, error) { return c.QPCounter(d, 2, 9) }},
		{"AllMRCounters (list)", op, o.MRCounters, func(d uint32) (any, error) { return all(c.AllMRCounters(d, nil)) }},
		{"MRCounters", op, o.MRCounters[1], func(d uint32) (any, error) { return c.MRCounters(d, 2) }},
		{"CounterMode", op, k.Statistics[nltest.PortID{Device: 7, Port: 2}].Setting, func(d uint32) (any, error) { return c.CounterMode(d, 2) }},
		{"CounterStatus", abi.RDMA_NLDEV_CMD_STAT_GET_STATUS, status, func(d uint32) (any, error) { return c.CounterStatus(d, 2) }},
	}
}

func TestStatistics(t *testing.T) {
	k := statKernel()
	for _, test := range statCalls(&netlinkrdma.Client{Kernel: k}, k) {
		got, err := test.call(7)
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, diff)
		}
		if _, err := test.call(3); !errors.Is(err, netlinkrdma.ErrNoStatistics) && !errors.Is(err, netlinkrdma.ErrNoObject) && !strings.HasSuffix(test.name, "(list)") {
			t.Errorf("%s of siw: %v", test.name, err)
		}
		if _, err := test.call(77); !errors.Is(err, netlinkrdma.ErrNoStatistics) || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s of no device: %v", test.name, err)
		}
	}
}

// setCalls are the calls that change something, by name.
func setCalls(c *netlinkrdma.Client) map[string]resCall {
	const set, del = abi.RDMA_NLDEV_CMD_STAT_SET, abi.RDMA_NLDEV_CMD_STAT_DEL
	change := func(op uint16, f func(d uint32) error) resCall {
		return resCall{op: op, call: func(d uint32) (any, error) { return nil, f(d) }}
	}
	return map[string]resCall{
		"SetAutoCounters":       change(set, func(d uint32) error { return c.SetAutoCounters(d, 1, netlinkrdma.CountByType, nil) }),
		"BindCounter":           change(set, func(d uint32) error { _, err := c.BindCounter(d, 1, 17); return err }),
		"BindToCounter":         change(set, func(d uint32) error { return c.BindToCounter(d, 1, 17, 9) }),
		"UnbindCounter":         change(del, func(d uint32) error { return c.UnbindCounter(d, 1, 17, 9) }),
		"SetOptionalCounters":   change(set, func(d uint32) error { return c.SetOptionalCounters(d, 1) }),
		"RenameDevice":          change(abi.RDMA_NLDEV_CMD_SET, func(d uint32) error { return c.RenameDevice(d, "a") }),
		"SetAdaptiveModeration": change(abi.RDMA_NLDEV_CMD_SET, func(d uint32) error { return c.SetAdaptiveModeration(d, true) }),
		"MoveDevice":            change(abi.RDMA_NLDEV_CMD_SET, func(d uint32) error { return c.MoveDevice(d, os.Stdin) }),
		"Device":                change(abi.RDMA_NLDEV_CMD_GET, func(d uint32) error { _, err := c.Device(d); return err }),
		"Port":                  change(abi.RDMA_NLDEV_CMD_PORT_GET, func(d uint32) error { _, err := c.Port(d, 1); return err }),
		"AddSubDevice":          change(abi.RDMA_NLDEV_CMD_NEWDEV, func(d uint32) error { return c.AddSubDevice(d, "a", netlinkrdma.DeviceSMI) }),
		"DeleteSubDevice":       change(abi.RDMA_NLDEV_CMD_DELDEV, func(d uint32) error { return c.DeleteSubDevice(d) }),
		"UmadCharDev":           change(abi.RDMA_NLDEV_CMD_GET_CHARDEV, func(d uint32) error { _, err := c.UmadCharDev(d, 1); return err }),
		"IssmCharDev":           change(abi.RDMA_NLDEV_CMD_GET_CHARDEV, func(d uint32) error { _, err := c.IssmCharDev(d, 1); return err }),
		"System":                change(abi.RDMA_NLDEV_CMD_SYS_GET, func(uint32) error { _, err := c.System(); return err }),
		"Subscribe":             change(abi.RDMA_NLDEV_CMD_SYS_GET, func(uint32) error { _, err := c.Subscribe(); return err }),
		"SetNetnsMode":          change(abi.RDMA_NLDEV_CMD_SYS_SET, func(uint32) error { return c.SetNetnsMode(0) }),
		"SetPrivilegedQKey":     change(abi.RDMA_NLDEV_CMD_SYS_SET, func(uint32) error { return c.SetPrivilegedQKey(true) }),
	}
}

func TestStatisticsEveryErrno(t *testing.T) {
	k := statKernel()
	c := &netlinkrdma.Client{Kernel: k}
	calls := setCalls(c)
	for _, read := range statCalls(c, k) {
		calls[read.name] = read
	}
	missing := []string{"Device", "Port", "RenameDevice", "SetAdaptiveModeration", "UmadCharDev", "IssmCharDev"}
	for name, test := range calls {
		reads := test.op == abi.RDMA_NLDEV_CMD_STAT_GET || test.op == abi.RDMA_NLDEV_CMD_STAT_GET_STATUS
		for errno := syscall.Errno(1); errno < 134; errno++ {
			k.Fail = map[uint16]error{test.op: errno}
			_, err := test.call(7)
			if !errors.Is(err, errno) || !errors.As(err, new(*verbs.Error)) {
				t.Errorf("%s with %d: %v", name, errno, err)
			}
			for sentinel, want := range map[error]bool{
				netlinkrdma.ErrPermission:   errno == syscall.EPERM || errno == syscall.EACCES,
				netlinkrdma.ErrNoStatistics: errno == syscall.EINVAL && reads,
				netlinkrdma.ErrNotFound:     errno == syscall.EINVAL && slices.Contains(missing, name),
				verbs.ErrNotSupported: errno == syscall.EPROTONOSUPPORT || errno == syscall.EAFNOSUPPORT || errno == syscall.ECONNREFUSED ||
					errno == syscall.EOPNOTSUPP || errno == syscall.ENOSYS || errno == syscall.ENOTTY || errno == syscall.EINVAL && reads,
			} {
				if errors.Is(err, sentinel) != want {
					t.Errorf("%s with %d: %v, is it %q?", name, errno, err, sentinel)
				}
			}
		}
	}
}

func TestAutoCounters(t *testing.T) {
	k := statKernel()
	c := netlinkrdma.Client{Kernel: k}
	for _, optional := range []bool{true, false} {
		err := c.SetAutoCounters(7, 1, netlinkrdma.CountByType|netlinkrdma.CountByPID, &netlinkrdma.AutoOptions{Optional: optional})
		if err != nil {
			t.Fatal(err)
		}
		want := netlinkrdma.CounterSetting{Mode: netlinkrdma.CountersAuto, By: netlinkrdma.CountByType | netlinkrdma.CountByPID, Optional: opt(optional)}
		if got, err := c.CounterMode(7, 1); err != nil || got != want {
			t.Error(got, err)
		}
	}
	if err := c.SetAutoCounters(7, 1, 0, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := c.CounterMode(7, 1); err != nil || got != (netlinkrdma.CounterSetting{}) {
		t.Error(got, err)
	}
	if err := c.SetAutoCounters(7, 2, netlinkrdma.CountByType, nil); !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), "unbind the QPs first") {
		t.Error(err)
	}
	k.Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_STAT_SET: syscall.EINVAL} // as of an attribute that the kernel does not know
	err := c.SetAutoCounters(7, 1, netlinkrdma.CountByType, &netlinkrdma.AutoOptions{Optional: true})
	if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "as 6.12, can't") {
		t.Error(err)
	}
}

func TestBindCounter(t *testing.T) {
	k := statKernel()
	k.Objects[7] = nltest.Objects{QP: objects.QP}
	c := netlinkrdma.Client{Kernel: k}
	id, err := c.BindCounter(7, 1, 17)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.BindToCounter(7, 1, 18, id); err != nil {
		t.Fatal(err)
	}
	q, err := c.QPCounter(7, 1, id)
	if diff := cmp.Diff([]netlinkrdma.QPRange{{First: 17, Last: 17}, {First: 18, Last: 18}}, q.LQPN); err != nil || diff != "" || q.Mode != netlinkrdma.CountersManual {
		t.Error(q.Mode, err, diff)
	}
	for _, lqpn := range []uint32{17, 18} {
		if err := c.UnbindCounter(7, 1, lqpn, id); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.QPCounter(7, 1, id); !errors.Is(err, netlinkrdma.ErrNoObject) {
		t.Error(err)
	}
	if _, err := c.BindCounter(7, 1, 999); !errors.Is(err, syscall.ENOENT) || !strings.Contains(err.Error(), "no such QP") {
		t.Error(err)
	}
	if err := c.UnbindCounter(7, 1, 17, id); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "rdmalink statistic qp mode") {
		t.Error(err)
	}
}

func TestOptionalCounters(t *testing.T) {
	k := statKernel()
	c := netlinkrdma.Client{Kernel: k}
	enabled := func() string {
		list, err := c.CounterStatus(7, 2)
		if err != nil {
			t.Fatal(err)
		}
		on := make(map[string]bool)
		for _, s := range list {
			if s.Optional && s.Enabled {
				on[s.Name] = true
			}
		}
		return strings.Join(slices.Sorted(maps.Keys(on)), " ")
	}
	for _, names := range [][]string{{"cc_rx_ce_pkts"}, {"cc_rx_cnp_pkts", "cc_rx_ce_pkts"}, nil} {
		if err := c.SetOptionalCounters(7, 2, names...); err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		if got, want := enabled(), strings.Join(names, " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	k.Requests = nil
	for _, name := range []string{"rcvd_pkts", "nonsense"} {
		err := c.SetOptionalCounters(7, 2, "cc_rx_ce_pkts", name)
		if !errors.Is(err, netlinkrdma.ErrNoObject) || !strings.Contains(err.Error(), "available: cc_rx_ce_pkts, cc_rx_cnp_pkts") {
			t.Error(err)
		}
	}
	if err := c.SetOptionalCounters(7, 1, "a"); !errors.Is(err, netlinkrdma.ErrNoObject) || !strings.Contains(err.Error(), "the port has none") {
		t.Error(err)
	}
	for _, req := range k.Requests {
		if req.Op == abi.RDMA_NLDEV_CMD_STAT_SET {
			t.Error("something was changed")
		}
	}
}
