package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/addlink"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/models"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// ward is a machine with nothing wrong: siw0 and rxe0 on dummy0.
type ward struct {
	host.Machine
	kernel  *nltest.Kernel
	nets    *hosttest.Netdevs
	proc    map[string]string
	sys     map[string]string
	modules map[string]string
}

func healthy() *ward {
	m, kernel, nets := hosttest.Machine()
	siw0 := kernel.Devices[0].Index
	kernel.System.NetnsMode = netlinkrdma.NetnsShared
	kernel.Devices = append(kernel.Devices, netlinkrdma.Device{Index: 7, Name: "rxe0", Ports: 1, NodeType: verbs.NodeCA, Protocol: "roce"})
	kernel.Ports = append(kernel.Ports, netlinkrdma.Port{DeviceIndex: 7, DeviceName: "rxe0", Index: 1, State: verbs.PortActive,
		PhysState: verbs.PhysLinkUp, NetdevIndex: 1, NetdevName: "dummy0"})
	kernel.CharDevs = map[uint32]netlinkrdma.CharDev{
		siw0: {Name: "uverbs0", ABI: 1, Major: 231, Minor: 192, DriverID: uint32(verbs.DriverSIW)},
		7:    {Name: "uverbs1", ABI: 2, Major: 231, Minor: 193, DriverID: uint32(verbs.DriverRXE)},
	}
	for i, index := range []uint32{9, 1, 2, 3} {
		nets.All[i].Index, nets.All[i].Carrier = index, true
	}
	m.Open = hosttest.Opens()
	m.OpenCM = func() error { return nil }
	m.Connect = func(context.Context, netip.Addr) (string, error) { return "", nil }
	return &ward{Machine: m, kernel: kernel, nets: nets, modules: map[string]string{},
		proc: map[string]string{
			"modules":                "siw 200704 0 - Live 0x0000\nrdma_rxe 217088 0 - Live 0x0000",
			"self/limits":            "Limit                     Soft Limit           Hard Limit           Units\nMax locked memory         unlimited            unlimited            bytes",
			"self/status":            "Name:\trdmalink\nCapEff:\t0000000000000000",
			"self/uid_map":           "         0          0 4294967295",
			"self/cgroup":            "0::/user.slice/job",
			"sys/kernel/osrelease":   "6.12.117",
			"sys/kernel/random/junk": "",
		},
		sys: map[string]string{
			"fs/cgroup/user.slice/rdma.max":         "siw0 hca_handle=3 hca_object=max\nelsewhere0 hca_handle=0 hca_object=0",
			"fs/cgroup/user.slice/rdma.current":     "siw0 hca_handle=3 hca_object=20",
			"fs/cgroup/user.slice/job/rdma.max":     "",
			"fs/cgroup/user.slice/job/rdma.current": "",
		}}
}

// doctor runs it on the device of this name, or on all.
func (w *ward) doctor(out cli.Output, name string) (string, error) {
	w.Proc, w.Sys, w.Modules = hosttest.Tree(w.proc), hosttest.Tree(w.sys), hosttest.Tree(w.modules)
	var b strings.Builder
	out.Stdout = &b
	err := Run(&w.Machine, &out, name)
	return b.String(), err
}

func TestDoctorHealthy(t *testing.T) {
	const want = `ok       core      the kernel answers by NETLINK_RDMA
ok       devices   there is siw0, rxe0
ok       modules   no driver is loaded without its RDMA half
ok       netns     netns mode is shared: every network namespace sees all devices
ok       nodes     siw0 opens
ok       nodes     rxe0 opens
ok       provider  siw0: there is one for siw
ok       provider  rxe0: there is one for rxe
ok       rdma_cm   /dev/infiniband/rdma_cm opens
ok       port      siw0/1 is ACTIVE
ok       port      rxe0/1 is ACTIVE
ok       gid       siw0/1 has GIDs
ok       gid       rxe0/1 has GIDs
ok       address   dummy0, behind siw0, has an address
ok       address   dummy0, behind rxe0, has an address
ok       connect   siw0 connects to its own address 10.1.1.1
ok       connect   rxe0 connects to its own address 10.1.1.1
ok       lossless  dummy0 has no DCB; soft RoCE retransmits lost packets
ok       ecn       dummy0 has no kernel queue that marks packets; the queues of cards and switches are not visible from here
ok       memlock   RLIMIT_MEMLOCK is unlimited
ok       cgroup    there are limits, and none is reached
ok       register  siw0 registers memory
ok       register  rxe0 registers memory
`
	got, err := healthy().doctor(cli.Output{}, "")
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	got, err = healthy().doctor(cli.Output{}, "siw0")
	if err != nil || strings.Contains(got, "rxe0") || !strings.Contains(got, "siw0 registers memory") {
		t.Errorf("of one device: %s, %v", got, err)
	}
	if got, err = healthy().doctor(cli.Output{}, "siw9"); got != "" || err == nil || cli.Plain(err) != "find RDMA device \"siw9\": no such RDMA device: there are siw0, rxe0" {
		t.Errorf("%s, %v", got, err)
	}
}

func noDevices(w *ward) {
	w.kernel.Devices, w.kernel.Ports = nil, nil
}

// TestDoctorFinds breaks one thing at a time.
func TestDoctorFinds(t *testing.T) {
	const limitRemedy = "ulimit -l unlimited; LimitMEMLOCK=infinity in the systemd unit; --ulimit memlock=-1 for the container; memlock in /etc/security/limits.conf"
	limit := func(soft string) func(w *ward) {
		return func(w *ward) {
			w.proc["self/limits"] = "Max locked memory         " + soft + "            unlimited            bytes"
		}
	}
	privileged := func(w *ward) { w.proc["self/status"] = "CapEff:\t000001ffffffffff" }
	openFails := func(err error) func(w *ward) {
		return func(w *ward) { w.Open = func(string) (*uverbs.Device, error) { return nil, err } }
	}
	for _, test := range []struct {
		name         string
		make         []func(w *ward)
		check        string
		level        level
		text, remedy string
	}{
		{"no RDMA", []func(*ward){func(w *ward) {
			w.kernel.Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_GET: syscall.EPROTONOSUPPORT, abi.RDMA_NLDEV_CMD_SYS_GET: syscall.EPROTONOSUPPORT}
		}}, "core", problem, "list RDMA devices: no NETLINK_RDMA here: protocol not supported: on Linux: modprobe ib_core",
			"modprobe ib_core; this fails on a kernel built without CONFIG_INFINIBAND"},
		{"no device", []func(*ward){noDevices}, "devices", problem, "there is no RDMA device in this network namespace", "rdmalink add siw0 type siw netdev NETDEV adds a software device"},
		{"no device, no siw", []func(*ward){noDevices, func(w *ward) { w.modules["6.12.117/modules.dep"] = "kernel/drivers/rdma_rxe.ko.xz: kernel/ib_core.ko" }},
			"devices", problem, "there is no RDMA device in this network namespace", "rdmalink add rxe0 type rxe netdev NETDEV adds a software device (this kernel has no siw, CONFIG_RDMA_SIW)"},
		{"no device, siw built in", []func(*ward){noDevices, func(w *ward) {
			w.modules["6.12.117/modules.dep"] = ""
			w.modules["6.12.117/modules.builtin"] = "kernel/drivers/infiniband/sw/siw/siw.ko"
		}}, "devices", problem, "there is no RDMA device in this network namespace", "rdmalink add siw0 type siw netdev NETDEV adds a software device"},
		{"no device, no module", []func(*ward){noDevices, func(w *ward) { w.modules["6.12.117/modules.dep"] = "kernel/net/siwx.ko:" }}, "devices", problem,
			"there is no RDMA device in this network namespace", "install the modules of this kernel: it has neither siw nor rdma_rxe (CONFIG_RDMA_SIW, CONFIG_RDMA_RXE); cloud kernels are often built without them"},
		{"exclusive", []func(*ward){noDevices, func(w *ward) { w.kernel.System.NetnsMode = netlinkrdma.NetnsExclusive }}, "devices", problem,
			"there is no RDMA device in this network namespace", "move one here, from the namespace that has it: rdmalink dev set DEV netns NAMESPACE; siw and rxe can't be moved, and stay in the first namespace"},
		{"exclusive", []func(*ward){noDevices, func(w *ward) { w.kernel.System.NetnsMode = netlinkrdma.NetnsExclusive }}, "netns", noted,
			"netns mode is exclusive: each device belongs to one network namespace",
			"or share all: rdmalink system set netns shared, before there is a second namespace (option netns_mode of module ib_core does so at boot)"},
		{"exclusive, with devices", []func(*ward){func(w *ward) { w.kernel.System.NetnsMode = netlinkrdma.NetnsExclusive }}, "netns", fine,
			"netns mode is exclusive: the devices belong to this network namespace", ""},
		{"half a driver", []func(*ward){func(w *ward) {
			w.proc["modules"] = "mlx5_core 1 0 - Live 0x0\nice 1 0 - Live 0x0\nirdma 1 0 - Live 0x0"
		}}, "modules", noted,
			"mlx5_core is loaded, but mlx5_ib, its RDMA half, is not", "modprobe mlx5_ib"},
		{"half a driver, no device", []func(*ward){noDevices, func(w *ward) { w.proc["modules"] = "mlx5_core 1 0 - Live 0x0" }}, "modules", problem,
			"mlx5_core is loaded, but mlx5_ib, its RDMA half, is not", "modprobe mlx5_ib"},
		{"half a driver, the other built in", []func(*ward){func(w *ward) {
			w.proc["modules"] = "mlx5_core 1 0 - Live 0x0"
			w.modules["6.12.117/modules.builtin"] = "kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko"
		}}, "modules", fine, "no driver is loaded without its RDMA half", ""},
		{"network device elsewhere", []func(*ward){func(w *ward) { w.kernel.Ports[1].NetdevIndex = 0 }}, "netns", problem,
			"rxe0/1 has no network device in this network namespace, so rdma_cm can't use it here",
			"run the program in the network namespace of that network device, or move it here: ip link set NETDEV netns …; if it is gone, rdmalink del rxe0"},
		{"a model of the sandbox", []func(*ward){func(w *ward) {
			w.kernel.Ports[1].NetdevIndex, w.sys["class/infiniband/rxe0/rdmalink_sandbox"] = 0, "198.51.100.1"
		}}, "netns", fine, "rxe0/1 is a model of rdmalink sandbox: rdma_cm finds it by the address 198.51.100.1, without a network device", ""},
		{"models alone", []func(*ward){func(w *ward) {
			w.sys["class/infiniband/siw0/rdmalink_sandbox"], w.sys["class/infiniband/rxe0/rdmalink_sandbox"] = "198.51.100.1", "198.51.100.1"
			w.proc["self/limits"] = "Max locked memory 65536 65536 bytes"
		}}, "memlock", fine, "models of rdmalink sandbox pin no memory", ""},
		{"no ib_uverbs", []func(*ward){func(w *ward) { w.kernel.CharDevs = nil }}, "nodes", problem, "siw0: find the character device uverbs: operation not supported", "modprobe ib_uverbs"},
		{"no permission", []func(*ward){openFails(&verbs.Error{Op: "open", Object: "device", Device: "siw0", Err: syscall.EACCES, Hint: "allow it"})}, "nodes", problem,
			"open device on siw0: permission denied", "allow it"},
		{"no more handles", []func(*ward){openFails(&verbs.Error{Op: "open", Object: "device", Device: "siw0", Err: syscall.EAGAIN, Hint: "the limit"})}, "nodes", problem,
			"open device on siw0: resource temporarily unavailable: the limit", "raise rdma.max of the cgroup, or of the one above that is full"},
		{"another error", []func(*ward){openFails(&verbs.Error{Op: "open", Object: "device", Device: "siw0", Err: syscall.EIO})}, "nodes", problem,
			"open device on siw0: input/output error", "look at the kernel's log: dmesg"},
		{"no provider", []func(*ward){func(w *ward) {
			w.kernel.CharDevs[7] = netlinkrdma.CharDev{Name: "uverbs1", ABI: 1, Major: 231, Minor: 193, DriverID: uint32(verbs.DriverMANA)}
		}}, "provider", problem, "use device on rxe0: no provider: this program links no provider for driver mana",
			"use a device that has one: rdmalink add NAME type rxe (or siw) netdev NETDEV, on the same network device; programs that use libibverbs are not affected"},
		{"no rdma_cm", []func(*ward){func(w *ward) {
			w.OpenCM = func() error { return &verbs.Error{Op: "open", Err: syscall.ENOENT, Hint: "run modprobe rdma_ucm"} }
		}}, "rdma_cm", problem, "open: no such file or directory", "run modprobe rdma_ucm"},
		{"down", []func(*ward){portIs(0, verbs.PortDown), func(w *ward) { w.nets.All[1].Up = false }}, "port", problem,
			"siw0/1 is DOWN, LINK_UP: network device dummy0 is down", "ip link set dummy0 up"},
		{"no carrier", []func(*ward){portIs(0, verbs.PortDown), func(w *ward) { w.nets.All[1].Carrier = false }}, "port", problem,
			"siw0/1 is DOWN, LINK_UP: network device dummy0 has no carrier", "plug the cable in, and look at its other end (ethtool dummy0)"},
		{"down for no reason", []func(*ward){portIs(0, verbs.PortDown)}, "port", problem,
			"siw0/1 is DOWN, LINK_UP: although network device dummy0 is up", "look at the kernel's log: dmesg"},
		{"no subnet manager", []func(*ward){portIs(1, verbs.PortInit)}, "port", problem,
			"rxe0/1 is INIT, LINK_UP: it has a link, but no subnet manager has set it up", "start one on this fabric, on a switch or a host (opensm)"},
		{"down elsewhere", []func(*ward){portIs(1, verbs.PortDown), func(w *ward) { w.kernel.Ports[1].NetdevIndex = 0 }}, "port", problem,
			"rxe0/1 is DOWN, LINK_UP: its network device lives in another network namespace, or is gone", "set it up there: ip -n NAMESPACE link set NETDEV up"},
		{"no cable", []func(*ward){portIs(1, verbs.PortDown), func(w *ward) {
			w.kernel.Ports[1].NetdevIndex, w.kernel.Devices[1].Protocol = 0, "ib"
		}}, "port", problem, "rxe0/1 is DOWN, LINK_UP: there is no link", "plug the cable in, and look at its other end"},
		{"turned off", []func(*ward){portIs(1, verbs.PortDown), func(w *ward) {
			w.kernel.Ports[1].InfiniBand, w.kernel.Ports[1].PhysState = true, verbs.PhysDisabled
		}}, "port", problem, "rxe0/1 is DOWN, DISABLED: it is turned off", "ibportstate -C rxe0 -D 0 1 enable"},
		{"turned off with its network device", []func(*ward){portIs(1, verbs.PortDown), func(w *ward) {
			w.kernel.Ports[1].PhysState, w.nets.All[1].Up = verbs.PhysDisabled, false
		}}, "port", problem, "rxe0/1 is DOWN, DISABLED: network device dummy0 is down", "ip link set dummy0 up"},
		{"GIDs of another port", []func(*ward){func(w *ward) {
			w.kernel.Devices[1].Ports, w.kernel.Ports[1].Index = 2, 2
		}}, "gid", problem, "rxe0/2 has no GID: they are made of the addresses of its network device, here dummy0", "ip addr add ADDRESS/LENGTH dev dummy0"},
		{"no GID on siw", []func(*ward){gids(0)}, "gid", problem,
			"siw0/1 has no GID, because dummy0 had no hardware address when the link was added: rdma_cm can't use it",
			"rdmalink del siw0, then rdmalink add siw0 type siw netdev dummy0"},
		{"no GID on rxe", []func(*ward){gids(0)}, "gid", problem,
			"rxe0/1 has no GID: they are made of the addresses of its network device, here dummy0", "ip addr add ADDRESS/LENGTH dev dummy0"},
		{"GIDs not reported", []func(*ward){func(w *ward) {
			k := fakeverbs.New(uint32(verbs.DriverSIW))
			k.Fail("QUERY_GID_TABLE", 0, syscall.EIO)
			w.Open = hosttest.Opens(k)
		}}, "gid", noted, "siw0/1: query the GID table of device on siw0: input/output error", ""},
		{"link-local", []func(*ward){gids(1)}, "gid", noted,
			"rxe0/1 has link-local GIDs only, which reach no further than the next router", "ip addr add ADDRESS/LENGTH dev dummy0"},
		{"no address", []func(*ward){func(w *ward) { w.nets.All[1].Addrs = hosttest.Loopback.Addrs }}, "address", problem,
			"dummy0 has no IP address outside 127/8, by which rdma_cm would find siw0", "ip addr add ADDRESS/LENGTH dev dummy0"},
		{"rxe on lo", []func(*ward){func(w *ward) {
			w.kernel.Ports[1].NetdevIndex = 9
			w.nets.All[0].Addrs = []netip.Addr{addlink.SpareAddr.Addr()}
		}}, "address", problem,
			"rxe0 is on lo, where rdma_cm can't connect through rxe", "add it on a dummy or veth device; verbs alone work (GID index 1)"},
		{"rdma_cm waits", []func(*ward){connects("rxe0", context.DeadlineExceeded)}, "connect", problem,
			"rxe0: a connection to its own address 10.1.1.1 timed out: rdma_cm does not answer for it, and dials without a time limit may wait for ever",
			"rdmalink del rxe0, then rdmalink add rxe0 type rxe netdev dummy0; if that does not help, reload the driver: modprobe -r rdma_rxe, modprobe rdma_rxe"},
		{"rdma_cm waits, device not known", []func(*ward){connects("", &verbs.Error{Op: "resolve route", Err: syscall.ETIMEDOUT})}, "connect", problem,
			"siw0: a connection to its own address 10.1.1.1 timed out: rdma_cm does not answer for it, and dials without a time limit may wait for ever",
			"rdmalink del siw0, then rdmalink add siw0 type siw netdev dummy0; if that does not help, reload the driver: modprobe -r siw, modprobe siw"},
		{"another device has the address", []func(*ward){connects("rxe0", nil)}, "connect", noted,
			"siw0 was not tried: rdma_cm takes rxe0 for 10.1.1.1, the address of dummy0", ""},
		{"does not connect", []func(*ward){connects("siw0", &verbs.Error{Op: "dial", Err: syscall.EAGAIN, Hint: "the limit"})}, "connect", noted,
			"siw0 does not connect to its own address: dial: resource temporarily unavailable", "the limit"},
		{"64 KiB", []func(*ward){limit("65536")}, "memlock", problem, "RLIMIT_MEMLOCK allows this process 64 KiB of registered memory, which is too little for most programs", limitRemedy},
		{"much", []func(*ward){limit("1073741824")}, "memlock", noted, "RLIMIT_MEMLOCK allows this process 1024 MiB of registered memory", limitRemedy},
		{"privileged", []func(*ward){limit("8388608"), privileged}, "memlock", noted, "RLIMIT_MEMLOCK is 8 MiB; CAP_IPC_LOCK lifts it, but not for siw of Linux 6.1", limitRemedy},
		{"privileged, no siw", []func(*ward){limit("8388608"), privileged, func(w *ward) {
			w.kernel.Devices, w.kernel.Ports = w.kernel.Devices[1:], w.kernel.Ports[1:]
		}}, "memlock", fine, "RLIMIT_MEMLOCK is 8 MiB, and CAP_IPC_LOCK lifts it", ""},
		{"privileged, much", []func(*ward){limit("67108864"), privileged}, "memlock", fine, "RLIMIT_MEMLOCK is 64 MiB, and CAP_IPC_LOCK lifts it", ""},
		{"no number", []func(*ward){limit("-1")}, "memlock", noted, `RLIMIT_MEMLOCK is "-1"`, ""},
		{"user namespace", []func(*ward){limit("8388608"), privileged, func(w *ward) { w.proc["self/uid_map"] = "         0       1000          1" }}, "memlock", problem,
			"RLIMIT_MEMLOCK allows this process 8 MiB of registered memory, which is too little for most programs", limitRemedy},
		{"no /proc", []func(*ward){func(w *ward) { w.proc = nil }}, "memlock", noted, "RLIMIT_MEMLOCK is not known: /proc/self/limits can't be read", ""},
		{"cgroup", []func(*ward){openFails(syscall.EAGAIN)}, "cgroup", problem,
			"siw0: the cgroup allows 3 hca_handle and has 3: another one fails with EAGAIN", "raise it: echo 'siw0 hca_handle=max' > /sys/fs/cgroup/user.slice/rdma.max"},
		{"cgroup v1", []func(*ward){func(w *ward) {
			w.proc["self/cgroup"] = "5:memory:/x\n4:rdma:/x"
			w.sys["fs/cgroup/rdma/x/rdma.max"] = "rxe0 hca_handle=max hca_object=0"
		}}, "cgroup", problem, "rxe0: the cgroup allows 0 hca_object and has 0: another one fails with EAGAIN", "raise it: echo 'rxe0 hca_object=max' > /sys/fs/cgroup/rdma/x/rdma.max"},
		{"registering fails", []func(*ward){func(w *ward) {
			k := fakeverbs.New(uint32(verbs.DriverSIW))
			k.Fail("REG_MR", 0, syscall.EAGAIN)
			w.Open = hosttest.Opens(k)
		}}, "register", problem, "create MR on siw0: resource temporarily unavailable: the cgroup's limit in rdma.max is reached",
			"raise rdma.max of the cgroup, or of the one above that is full"},
		{"registering fails otherwise", []func(*ward){func(w *ward) {
			k := fakeverbs.New(uint32(verbs.DriverSIW))
			k.Fail("ALLOC_PD", 0, syscall.EIO)
			w.Open = hosttest.Opens(k)
		}}, "register", problem, "create PD on siw0: input/output error", "look at the kernel's log: dmesg"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := healthy()
			for _, wrong := range test.make {
				wrong(w)
			}
			got, failed := w.doctor(cli.Output{JSON: true}, "")
			var all []map[string]string
			if err := json.Unmarshal([]byte(got), &all); err != nil {
				t.Fatal(err)
			}
			problems := false
			wrong := false
			for _, f := range all {
				if f["level"] == string(problem) {
					problems = true
				}
				wrong = wrong || f["check"] == test.check && f["level"] == string(test.level) && f["finding"] == test.text && f["remedy"] == test.remedy
			}
			if !wrong || problems != (failed != nil) {
				t.Errorf("%v\n%s", failed, strings.ReplaceAll(got, "},{", "},\n{"))
			}
		})
	}
}

// connects has rdma_cm choose this device, and fail.
func connects(device string, err error) func(*ward) {
	return func(w *ward) {
		w.Connect = func(ctx context.Context, _ netip.Addr) (string, error) {
			if _, limited := ctx.Deadline(); !limited {
				panic("a connection without a time limit")
			}
			return device, err
		}
	}
}

// TestDoctorConnectsOnlyIfPossible checks that nothing is dialled for which another check has a finding.
func TestDoctorConnectsOnlyIfPossible(t *testing.T) {
	for name, wrong := range map[string]func(*ward){
		"no rdma_cm": func(w *ward) { w.OpenCM = func() error { return syscall.ENOENT } },
		"not open":   func(w *ward) { w.Open = func(string) (*uverbs.Device, error) { return nil, syscall.EACCES } },
		"down":       func(w *ward) { portIs(0, verbs.PortDown)(w); portIs(1, verbs.PortDown)(w) },
		"no address": func(w *ward) {
			w.nets.All[1].Addrs = []netip.Addr{netip.MustParseAddr("fe80::1"), netip.MustParseAddr("127.0.0.2")}
		},
		"elsewhere":  func(w *ward) { w.kernel.Ports[0].NetdevIndex, w.kernel.Ports[1].NetdevIndex = 0, 0 },
		"cards":      func(w *ward) { w.kernel.CharDevs[7], w.kernel.CharDevs[w.kernel.Devices[0].Index] = card, card },
		"both on lo": func(w *ward) { w.kernel.Ports[0].NetdevIndex, w.kernel.Ports[1].NetdevIndex = 9, 9 },
	} {
		w := healthy()
		wrong(w)
		w.Connect = func(context.Context, netip.Addr) (string, error) {
			t.Errorf("%s: dialled", name)
			return "", nil
		}
		w.doctor(cli.Output{}, "")
	}
}

var card = netlinkrdma.CharDev{Name: "uverbs1", ABI: 1, Major: 231, Minor: 193, DriverID: uint32(verbs.DriverMLX5)}

func portIs(n int, s verbs.PortState) func(*ward) {
	return func(w *ward) { w.kernel.Ports[n].State = s }
}

// gids limits the GIDs that devices report to the first n.
func gids(n uint64) func(*ward) {
	return func(w *ward) {
		w.Open = func(name string) (*uverbs.Device, error) {
			driver := verbs.DriverSIW
			if name == "rxe0" {
				driver = verbs.DriverRXE
			}
			k := fakeverbs.New(uint32(driver))
			k.Tamper = func(call string, r *ioctl.Request) {
				if call == "QUERY_GID_TABLE" {
					ioctl.Answer(r, abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &n)
				}
			}
			return hosttest.Opens(k)(name)
		}
	}
}

// TestDoctorClosesWhatItOpened checks that everything is closed, also if a check
// fails.
func TestDoctorClosesWhatItOpened(t *testing.T) {
	for _, fail := range []string{"", "ALLOC_PD", "REG_MR", "QUERY_GID_TABLE"} {
		w := healthy()
		k := fakeverbs.New(uint32(verbs.DriverSIW))
		if fail != "" {
			k.Fail(fail, 0, syscall.EIO)
		}
		w.Open = hosttest.Opens(k)
		got, err := w.doctor(cli.Output{}, "siw0")
		if problem := fail != "" && fail != "QUERY_GID_TABLE"; problem != (err != nil) {
			t.Errorf("%s: %v\n%s", fail, err, got)
		}
		if !k.Closed() {
			t.Errorf("%s: still open", fail)
		}
	}
}

// TestDoctorWriteFails checks the error if the output is closed.
func TestDoctorWriteFails(t *testing.T) {
	w := healthy()
	if _, err := w.doctor(cli.Output{}, ""); err != nil {
		t.Error(err)
	}
	reader, writer := io.Pipe()
	reader.Close()
	if err := Run(&w.Machine, &cli.Output{Stdout: writer}, ""); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

// TestDoctorDocumented checks that docs/doctor.md describes every check, in order.
func TestDoctorDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows, want []string
	for line := range strings.Lines(string(page)) {
		if name, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ = strings.Cut(name, "`")
			rows = append(rows, name)
		}
	}
	for _, c := range checks {
		want = append(want, c.name)
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("(-table of checks +page):\n%s", diff)
	}
}
