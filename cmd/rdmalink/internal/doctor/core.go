package doctor

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/netlinkrdma"
)

func checkCore(p *facts) []finding {
	if p.coreErr != nil {
		return []finding{found(problem, "modprobe ib_core; this fails on a kernel built without CONFIG_INFINIBAND", "%s", cli.Plain(p.coreErr))}
	}
	return []finding{found(fine, "", "the kernel answers by NETLINK_RDMA")}
}

func checkDevices(p *facts) []finding {
	if p.coreErr != nil {
		return nil
	}
	if len(p.devices) == 0 {
		return []finding{found(problem, p.softRemedy(), "there is no RDMA device in this network namespace")}
	}
	names := make([]string, len(p.devices))
	for i, l := range p.devices {
		names[i] = l.Name
	}
	return []finding{found(fine, "", "there is %s", strings.Join(names, ", "))}
}

// softRemedy returns the remedy for a host without devices. It proposes software devices
// only, because drivers of hardware load automatically.
func (p *facts) softRemedy() string {
	switch {
	case p.system.NetnsMode == netlinkrdma.NetnsExclusive && p.exposed:
		return "move one here, from the namespace that has it: rdmalink dev set DEV netns NAMESPACE; siw and rxe can't be moved, and stay in the first namespace"
	case !p.modulesKnown() || p.hasModule("siw"):
		return "rdmalink add siw0 type siw netdev NETDEV adds a software device"
	case p.hasModule("rdma_rxe"):
		return "rdmalink add rxe0 type rxe netdev NETDEV adds a software device (this kernel has no siw, CONFIG_RDMA_SIW)"
	}
	return "install the modules of this kernel: it has neither siw nor rdma_rxe (CONFIG_RDMA_SIW, CONFIG_RDMA_RXE); cloud kernels are often built without them"
}

// halves pairs each driver of network devices with the module that adds RDMA to it.
var halves = [][2]string{
	{"mlx5_core", "mlx5_ib"}, {"mlx4_core", "mlx4_ib"}, {"bnxt_en", "bnxt_re"}, {"ice", "irdma"}, {"i40e", "irdma"},
	{"cxgb4", "iw_cxgb4"}, {"qede", "qedr"}, {"hns3", "hns_roce_hw_v2"}, {"be2net", "ocrdma"}, {"mana", "mana_ib"},
}

// checkModules reports missing modules as a problem only if there is no device at
// all, because not every card of these drivers supports RDMA.
func checkModules(p *facts) []finding {
	text, err := fs.ReadFile(p.Proc, "modules")
	if err != nil {
		return nil
	}
	loaded := func(module string) bool {
		return strings.HasPrefix(string(text), module+" ") || strings.Contains(string(text), "\n"+module+" ")
	}
	l := noted
	if p.coreErr == nil && len(p.devices) == 0 {
		l = problem
	}
	var all []finding
	for _, h := range halves {
		if loaded(h[0]) && !loaded(h[1]) && !p.isBuiltIn(h[1]) {
			all = append(all, found(l, "modprobe "+h[1], "%s is loaded, but %s, its RDMA half, is not", h[0], h[1]))
		}
	}
	if all == nil {
		return []finding{found(fine, "", "no driver is loaded without its RDMA half")}
	}
	return all
}

// release returns the kernel's release, which names its directory in /lib/modules.
func (p *facts) release() string { return p.Proc.Text("sys/kernel/osrelease") }

func (p *facts) modulesKnown() bool { return p.Modules.Has(p.release(), "modules.dep") }

func (p *facts) hasModule(name string) bool {
	return p.listed("modules.dep", name) || p.isBuiltIn(name)
}

func (p *facts) isBuiltIn(name string) bool { return p.listed("modules.builtin", name) }

// listed reports whether a module is in a list of files, with lines such as
// "kernel/drivers/.../siw.ko.xz: …".
func (p *facts) listed(list, name string) bool {
	text := p.Modules.Text(p.release(), list)
	return slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
		file, _, _ := strings.Cut(line, ":")
		return strings.HasPrefix(path.Base(file), name+".ko")
	})
}

// checkNetns checks the netns mode, and finds ports whose network device is in another
// namespace.
func checkNetns(p *facts) []finding {
	if !p.exposed {
		return nil
	}
	all := p.eachPort(func(l *deviceFacts, port netlinkrdma.Port) []finding {
		if port.NetdevIndex != 0 || !l.onNetdev() {
			return nil
		}
		if l.sandbox != "" {
			return []finding{found(fine, "", "%s/%d is a model of rdmalink sandbox: rdma_cm finds it by the address %s, without a network device", l.Name, port.Index, l.sandbox)}
		}
		return []finding{found(problem, "run the program in the network namespace of that network device, or move it here: ip link set NETDEV netns …; if it is gone, rdmalink del "+l.Name,
			"%s/%d has no network device in this network namespace, so rdma_cm can't use it here", l.Name, port.Index)}
	})
	switch {
	case all != nil:
		return all
	case p.system.NetnsMode == netlinkrdma.NetnsExclusive && len(p.devices) == 0:
		return []finding{found(noted, "or share all: rdmalink system set netns shared, before there is a second namespace (option netns_mode of module ib_core does so at boot)",
			"netns mode is exclusive: each device belongs to one network namespace")}
	}
	return []finding{found(fine, "", "netns mode is %v%s", p.system.NetnsMode, meaning(p.system.NetnsMode))}
}

func meaning(m netlinkrdma.NetnsMode) string {
	if m == netlinkrdma.NetnsShared {
		return ": every network namespace sees all devices"
	}
	return ": the devices belong to this network namespace"
}
