package doctor

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/addlink"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/verbs"
)

func checkPort(p *facts) []finding {
	return p.eachPort(func(l *deviceFacts, port netlinkrdma.Port) []finding {
		name := fmt.Sprintf("%s/%d is %v", l.Name, port.Index, port.State)
		if port.State == verbs.PortActive {
			return []finding{found(fine, "", "%s", name)}
		}
		why, remedy := p.inactive(l, port)
		return []finding{found(problem, remedy, "%s, %v: %s", name, port.PhysState, why)}
	})
}

// inactive explains why a port is not active, and suggests a remedy.
func (p *facts) inactive(l *deviceFacts, port netlinkrdma.Port) (why, remedy string) {
	d, here := p.netdevs[port.NetdevIndex]
	switch {
	case port.State == verbs.PortInit || port.State == verbs.PortArmed:
		return "it has a link, but no subnet manager has set it up", "start one on this fabric, on a switch or a host (opensm)"
	case port.InfiniBand && port.PhysState == verbs.PhysDisabled:
		return "it is turned off", fmt.Sprintf("ibportstate -C %s -D 0 %d enable", l.Name, port.Index)
	case port.NetdevIndex == 0 && l.onNetdev():
		return "its network device lives in another network namespace, or is gone", "set it up there: ip -n NAMESPACE link set NETDEV up"
	case !here:
		return "there is no link", "plug the cable in, and look at its other end"
	case !d.Up:
		return fmt.Sprintf("network device %s is down", d.Name), fmt.Sprintf("ip link set %s up", d.Name)
	case !d.Carrier:
		return fmt.Sprintf("network device %s has no carrier", d.Name), fmt.Sprintf("plug the cable in, and look at its other end (ethtool %s)", d.Name)
	}
	return fmt.Sprintf("although network device %s is up", d.Name), "look at the kernel's log: dmesg"
}

// checkGID checks active ports of open devices. Earlier checks report the others.
func checkGID(p *facts) []finding {
	return p.eachPort(func(l *deviceFacts, port netlinkrdma.Port) []finding {
		if _, here := p.netdevs[port.NetdevIndex]; l.dev == nil || port.State != verbs.PortActive || !here && l.onNetdev() {
			return nil
		}
		if l.gidErr != nil {
			return []finding{found(noted, "", "%s/%d: %s", l.Name, port.Index, cli.Plain(l.gidErr))}
		}
		f := p.gidFinding(l, port)
		f.text = fmt.Sprintf("%s/%d %s", l.Name, port.Index, f.text)
		return []finding{f}
	})
}

func (p *facts) gidFinding(l *deviceFacts, port netlinkrdma.Port) finding {
	d := p.netdevs[port.NetdevIndex]
	used, routed := 0, 0
	for _, e := range l.gids {
		if e.Port != port.Index {
			continue
		}
		if used++; !e.GID.Addr().IsLinkLocalUnicast() {
			routed++
		}
	}
	switch {
	case used == 0 && l.Protocol == "iw":
		return found(problem, l.addAgain(d), "has no GID, because %s had no hardware address when the link was added: rdma_cm can't use it", d.Name)
	case used == 0 && l.Protocol == "roce":
		return found(problem, d.AddrCommand(), "has no GID: they are made of the addresses of its network device, here %s", d.Name)
	case used == 0:
		return found(problem, "look at the subnet manager (sminfo)", "has no GID")
	case routed == 0 && l.Protocol == "roce":
		return found(noted, d.AddrCommand(), "has link-local GIDs only, which reach no further than the next router")
	}
	return found(fine, "", "has GIDs")
}

// checkAddress checks the address that add sets when it adds a link. It may have
// been removed later.
func checkAddress(p *facts) []finding {
	if p.doubtful != nil {
		return []finding{found(noted, "", "network devices can't be listed: %v", p.doubtful)}
	}
	return p.eachPort(func(l *deviceFacts, port netlinkrdma.Port) []finding {
		d, here := p.netdevs[port.NetdevIndex]
		switch {
		case !here || !l.onNetdev():
			return nil
		case l.info.Driver == verbs.DriverRXE && d.Loopback:
			return []finding{found(problem, "add it on a dummy or veth device; verbs alone work (GID index 1)", "%s is on %s, where rdma_cm can't connect through rxe", l.Name, d.Name)}
		case !d.Usable():
			return []finding{found(problem, d.AddrCommand(), "%s has no IP address outside 127/8, by which rdma_cm would find %s", d.Name, l.Name)}
		}
		return []finding{found(fine, "", "%s, behind %s, has an address", d.Name, l.Name)}
	})
}

// connectTimeout is far above what a connection within a host takes, also if messages have to be repeated.
const connectTimeout = 20 * time.Second

// modules are the software drivers, whose links can be deleted and added.
var modules = map[verbs.DriverID]string{verbs.DriverSIW: "siw", verbs.DriverRXE: "rdma_rxe"}

// checkConnect connects through each software device to itself. Cards are left out, because not every
// card can send to itself. An error is a note, because other checks report the causes; a connection that
// waits until its time is over has none that they could find.
func checkConnect(p *facts) []finding {
	return p.eachPort(func(l *deviceFacts, port netlinkrdma.Port) []finding {
		d := p.netdevs[port.NetdevIndex]
		addr, ok := d.Dialable()
		module := modules[l.info.Driver]
		if !ok || module == "" || l.dev == nil || port.State != verbs.PortActive || d.Loopback && l.info.Driver == verbs.DriverRXE || p.OpenCM() != nil {
			return nil // other checks report it
		}
		ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
		defer cancel()
		device, err := p.Connect(ctx, addr)
		switch {
		case device != "" && device != l.Name:
			return []finding{found(noted, "", "%s was not tried: rdma_cm takes %s for %v, the address of %s", l.Name, device, addr, d.Name)}
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
			return []finding{found(problem, l.addAgain(d)+"; if that does not help, reload the driver: modprobe -r "+module+", modprobe "+module,
				"%s: a connection to its own address %v timed out: rdma_cm does not answer for it, and dials without a time limit may wait for ever", l.Name, addr)}
		case err != nil:
			f := failure(err, "")
			f.level, f.text = noted, fmt.Sprintf("%s does not connect to its own address: %s", l.Name, f.text)
			return []finding{f}
		}
		return []finding{found(fine, "", "%s connects to its own address %v", l.Name, addr)}
	})
}

// addAgain returns the commands that make the link anew.
func (l *deviceFacts) addAgain(d addlink.Netdev) string {
	return fmt.Sprintf("rdmalink del %s, then rdmalink add %s type %v netdev %s", l.Name, l.Name, l.info.Driver, d.Name)
}
