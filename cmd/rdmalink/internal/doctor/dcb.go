package doctor

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"syscall"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/addlink"
	"github.com/goverbs/goverbs/internal/rtnetlink"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/verbs"
)

// checkLossless reads how the network devices of RoCE ports handle a full buffer. It reports
// no problem, because small networks work without lossless settings.
func checkLossless(p *facts) []finding {
	return p.eachRoCE(func(l *deviceFacts, d addlink.Netdev) []finding {
		dcb, err := p.Route.DCB(d.Name)
		switch {
		case errors.Is(err, syscall.EOPNOTSUPP) && l.info.Driver == verbs.DriverRXE:
			return []finding{found(fine, "", "%s has no DCB; soft RoCE retransmits lost packets", d.Name)}
		case errors.Is(err, syscall.EOPNOTSUPP):
			return []finding{found(noted, "", "%s has no DCB, or does not show it to the kernel: whether RoCE's packets are dropped is up to its firmware and the switch", d.Name)}
		case err != nil:
			return []finding{found(noted, "", "%s: DCB: %s", d.Name, cli.Plain(err))}
		}
		return lossless(d.Name, dcb)
	})
}

// lossless returns the settings for lossless RoCE, or those that are missing.
func lossless(netdev string, d *rtnetlink.DCB) (all []finding) {
	note := func(remedy, format string, args ...any) {
		all = append(all, found(noted, remedy, netdev+" "+format, args...))
	}
	switch bits.OnesCount8(d.PFC) {
	case 0:
		note(fmt.Sprintf("dcb pfc set dev %s prio-pfc all:off 3:on; the same on the switch", netdev), "has PFC for no priority, so a full buffer drops packets")
		return all
	case 8:
		note(fmt.Sprintf("dcb pfc set dev %s prio-pfc all:off 3:on", netdev), "has PFC for every priority, so RoCE's pauses stop all traffic")
		return all
	}
	priority := bits.TrailingZeros8(d.PFC)
	var dscps []string
	for dscp, has := range d.HasDSCP {
		if has && int(d.DSCP[dscp]) == priority {
			dscps = append(dscps, fmt.Sprint(dscp))
		}
	}
	if dscps == nil {
		note(fmt.Sprintf("dcb app add dev %s dscp-prio 26:%d; then make programs send with that DSCP (traffic class 106)", netdev, priority),
			"has PFC for priority %d, and no DSCP leads to it: only packets with a VLAN tag are safe", priority)
	}
	if d.Trust != nil && !slices.Contains(d.Trust, rtnetlink.SelectDSCP) {
		note(fmt.Sprintf("dcb apptrust set dev %s order dscp", netdev), "does not trust DSCP")
	}
	class := d.Class[priority] & 7
	if d.HasETS && d.Shared[class] && d.Share[class] == 0 {
		note(fmt.Sprintf("dcb ets set dev %s tc-bw %d:50, and the rest for others", netdev, class), "gives priority %d, which is class %d, no share of the link", priority, class)
	}
	if all == nil {
		share := ""
		if d.HasETS && d.Shared[class] {
			share = fmt.Sprintf(", %d%% of the link", d.Share[class])
		}
		all = append(all, found(fine, "", "%s has PFC for priority %d, to which DSCP %s leads%s; the switch must have the same", netdev, priority, strings.Join(dscps, ", "), share))
	}
	return all
}

// checkECN checks whether the host's own queues mark packets. The queues of switches are not
// accessible.
func checkECN(p *facts) []finding {
	return p.eachRoCE(func(_ *deviceFacts, d addlink.Netdev) []finding {
		queues, err := p.Route.Qdiscs(d.Index)
		if err != nil {
			return []finding{found(noted, "", "%s: its queues are not known: %s", d.Name, cli.Plain(err))}
		}
		var marking []string
		for _, q := range queues {
			if q.ECN && !slices.Contains(marking, q.Kind) {
				marking = append(marking, q.Kind)
			}
		}
		if marking == nil {
			return []finding{found(fine, "", "%s has no kernel queue that marks packets; the queues of cards and switches are not visible from here", d.Name)}
		}
		return []finding{found(fine, "", "%s marks packets before it drops them: %s", d.Name, strings.Join(marking, ", "))}
	})
}

// eachRoCE calls f for the network devices below RoCE's ports, once each.
func (p *facts) eachRoCE(f func(*deviceFacts, addlink.Netdev) []finding) []finding {
	seen := make(map[uint32]bool)
	return p.eachPort(func(l *deviceFacts, port netlinkrdma.Port) []finding {
		d, here := p.netdevs[port.NetdevIndex]
		if l.Protocol != "roce" || !here || seen[d.Index] {
			return nil
		}
		seen[d.Index] = true
		return f(l, d)
	})
}
