package doctor

import (
	"errors"
	"syscall"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func checkNodes(p *facts) (all []finding) {
	for _, l := range p.devices {
		switch {
		case l.nodeErr != nil:
			all = append(all, found(problem, "modprobe ib_uverbs", "%s: %s", l.Name, cli.Plain(l.nodeErr)))
		case l.openErr != nil:
			all = append(all, refused(l.openErr))
		default:
			all = append(all, found(fine, "", "%s opens", l.Name))
		}
	}
	return all
}

// refused returns the finding for an operation that the kernel refused. The error
// of a cgroup limit does not name the cgroup.
func refused(err error) finding {
	if errors.Is(err, syscall.EAGAIN) {
		return found(problem, "raise rdma.max of the cgroup, or of the one above that is full", "%s", cli.Plain(err))
	}
	return failure(err, "look at the kernel's log: dmesg")
}

// checkProvider checks this binary, which stands for programs built like it.
func checkProvider(p *facts) (all []finding) {
	for _, l := range p.devices {
		if l.nodeErr != nil {
			continue // the driver is not known
		}
		err := l.info.Provider()
		if err == nil {
			all = append(all, found(fine, "", "%s: there is one for %v", l.Name, l.info.Driver))
			continue
		}
		f := failure(err, "")
		f.text += ": " + f.remedy
		f.remedy = "use a device that has one: rdmalink add NAME type rxe (or siw) netdev NETDEV, on the same network device; programs that use libibverbs are not affected"
		all = append(all, f)
	}
	return all
}

func checkCM(p *facts) []finding {
	if p.coreErr != nil {
		return nil
	}
	if err := p.OpenCM(); err != nil {
		return []finding{failure(err, "modprobe rdma_ucm")}
	}
	return []finding{found(fine, "", "/dev/infiniband/rdma_cm opens")}
}

// checkRegister registers memory, which all the limits affect.
func checkRegister(p *facts) (all []finding) {
	for _, l := range p.devices {
		if l.dev == nil || l.info.Provider() != nil {
			continue
		}
		if err := registerPage(l.dev); err != nil {
			all = append(all, refused(err))
			continue
		}
		all = append(all, found(fine, "", "%s registers memory", l.Name))
	}
	return all
}

func registerPage(dev *uverbs.Device) error {
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	mr, err := pd.AllocMR(4096, verbs.AccessLocalWrite, nil)
	if err == nil {
		err = mr.Close()
	}
	return errors.Join(err, pd.Close())
}
