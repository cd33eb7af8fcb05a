package main

import (
	"context"
	"errors"
	"strings"

	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/ib/madtest"
)

// subnet watches an InfiniBand subnet in software, from the first cable to partitions.
func subnet(l *lab) {
	ctx := context.Background()
	net := must(madtest.NewSubnet(must(madtest.FatTree(4, 2))))
	c := closing(l, fabric.NewClient(closing(l, must(net.Open("h1", 1))), nil))
	// state shows the port at the end of a directed route, which needs no LIDs.
	state := func(when string, hops ...uint8) {
		var node mad.NodeDescription
		var port mad.PortInfo
		check(c.Get(ctx, mad.Directed(hops...), 0, &node))
		check(c.Get(ctx, mad.Directed(hops...), 0, &port))
		l.say("%s: %s has LID %d", when, node.Text, port.LID)
	}
	// way shows the nodes between two hosts, along the forwarding tables.
	way := func(when, from, to string) {
		var names []string
		for _, hop := range must(c.Trace(ctx, lid(net, from), lid(net, to))) {
			names = append(names, hop.Description)
		}
		l.say("%s: %s", when, strings.Join(names, " -> "))
	}
	// ask asks subnet administration for a path, as programs do before they connect.
	ask := func(when, from, to string) {
		path := mad.PathRecord{SLID: lid(net, from), DLID: lid(net, to)}
		err := c.QueryOne(ctx, mad.MaskPathSLID|mad.MaskPathDLID, &path)
		var refused *mad.StatusError
		if errors.As(err, &refused) {
			l.say("%s: from %s to %s: status 0x%04x", when, from, to, uint16(refused.Status))
			return
		}
		check(err)
		l.say("%s: from %s to %s by LID %d, P_Key 0x%04x", when, from, to, path.DLID, path.PKey)
	}

	l.say("h1's port without a subnet manager: %v", net.Node("h1").Port(1).Info().LinkState)
	state("before", 1)
	check(net.StartSM("h8"))
	l.say("h1's port with one: %v", net.Node("h1").Port(1).Info().LinkState)
	state("after", 1)

	var table mad.LinearForwardingTable
	check(c.Get(ctx, mad.Directed(1), 0, &table))
	for _, host := range []string{"h1", "h2", "h8"} {
		l.say("leaf1 sends to %s, LID %d, by port %d", host, lid(net, host), table.Ports[lid(net, host)])
	}
	way("the way", "h1", "h8")
	net.Node("leaf1").Port(int(table.Ports[lid(net, "h8")])).Unplug()
	way("without that cable", "h1", "h8")

	ask("one partition", "h1", "h3")
	check(net.SetPartition(0x7fff, net.Node("h8").Port(1)))
	check(net.SetPartition(0x0010, net.Node("h1").Port(1), net.Node("h2").Port(1)))
	ask("two partitions", "h1", "h2")
	ask("two partitions", "h1", "h3")
	ask("two partitions", "h1", "h8")
}

// lid returns the LID of a host's port.
func lid(net *madtest.Subnet, host string) uint16 { return net.Node(host).Port(1).Info().LID }
