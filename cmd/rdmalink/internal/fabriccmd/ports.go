package fabriccmd

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/ib/umad"
	"github.com/goverbs/goverbs/verbs"
)

type portsOptions struct {
	common
	list, short, guids, status bool
}

var ports = define(&program{
	name: "ports", args: "[OPTIONS] [DEV [PORT]]",
	summary: "print this host's ports that support management datagrams",
	text: `
It reads only /sys, so it needs no privileges.
`,
}, 2, []cli.Row[portsOptions]{
	cli.NewRow('l', "list_of_cas", "", "print the names of the devices only", cli.Flag(func(o *portsOptions) *bool { return &o.list })),
	cli.NewRow('s', "short", "", "print the devices without their ports", cli.Flag(func(o *portsOptions) *bool { return &o.short })),
	cli.NewRow('p', "port_list", "", "print the GUIDs of the ports only", cli.Flag(func(o *portsOptions) *bool { return &o.guids })),
	cli.NewRow(0, "status", "", "print in the format of ibstatus", cli.Flag(func(o *portsOptions) *bool { return &o.status })),
	jsonRow[portsOptions](),
}, showPorts)

func showPorts(_ context.Context, s *session, o *portsOptions, words []string) error {
	all, err := umad.Ports()
	if err != nil {
		return err
	}
	if all, err = selectPorts(all, words); err != nil {
		return err
	}
	if s.JSON {
		list := make([]table.Table, len(all))
		for i, a := range all {
			list[i] = portTable(a)
		}
		return s.WriteJSON(list)
	}
	last := ""
	for _, a := range all {
		first := a.Device != last
		last = a.Device
		switch {
		case o.status:
			err = s.printStatus(a)
		case o.guids:
			err = s.Printf("%s\n", guid(a.PortGUID))
		case o.list:
			if first {
				err = s.Printf("%s\n", cli.Printable(a.Device))
			}
		default:
			if first {
				err = s.printDevice(a)
			}
			if err == nil && !o.short {
				err = s.printPort(a, len(words) == 2)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// selectPorts returns the ports of a device, or one of them.
func selectPorts(all []mad.PortAttr, words []string) ([]mad.PortAttr, error) {
	if len(words) == 0 {
		return all, nil
	}
	number := uint64(0)
	if len(words) == 2 {
		var err error
		if number, err = strconv.ParseUint(words[1], 10, 8); err != nil || number > math.MaxUint8 {
			return nil, cli.UsageError{Text: fmt.Sprintf("invalid port %q: expected a number", words[1])}
		}
	}
	var found []mad.PortAttr
	for _, a := range all {
		if a.Device == words[0] && (len(words) == 1 || uint64(a.Port) == number) {
			found = append(found, a)
		}
	}
	if len(found) == 0 && len(words) == 2 {
		return nil, fmt.Errorf("device %[2]q has no port %[1]s with management datagrams", words[1], words[0])
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("device %q has no port with management datagrams", words[0])
	}
	return found, nil
}

func (s *session) printDevice(a mad.PortAttr) error {
	return s.Printf("CA '%s'\n\tCA type: %s\n\tNumber of ports: %d\n\tFirmware version: %s\n\tHardware version: %s\n\tNode GUID: %s\n\tSystem image GUID: %s\n",
		cli.Printable(a.Device), cli.Printable(a.DeviceType), a.NumPorts, cli.Printable(a.Firmware), cli.Printable(a.Hardware), guid(a.NodeGUID), guid(a.SystemGUID))
}

// The names of states in ibstat's output.
var (
	stateNames = map[verbs.PortState]string{verbs.PortDown: "Down", verbs.PortInit: "Initializing", verbs.PortArmed: "Armed", verbs.PortActive: "Active"}
	physNames  = map[verbs.PhysState]string{
		verbs.PhysSleep: "Sleep", verbs.PhysPolling: "Polling", verbs.PhysDisabled: "Disabled", verbs.PhysTraining: "PortConfigurationTraining",
		verbs.PhysLinkUp: "LinkUp", verbs.PhysLinkRecover: "LinkErrorRecovery", verbs.PhysTest: "PhyTest",
	}
)

func stateName(s verbs.PortState) string {
	if name, ok := stateNames[s]; ok {
		return name
	}
	return "???"
}

func physName(p verbs.PhysState) string {
	if name, ok := physNames[p]; ok {
		return name
	}
	return "No state change"
}

// printPort prints a port, either indented below its device or alone.
func (s *session) printPort(a mad.PortAttr, alone bool) error {
	indent := "\t"
	if alone {
		indent = ""
	}
	return s.Printf(`%[1]sPort %[2]d:
%[1]s	State: %[3]s
%[1]s	Physical state: %[4]s
%[1]s	Rate: %[5]d
%[1]s	Base lid: %[6]d
%[1]s	LMC: %[7]d
%[1]s	SM lid: %[8]d
%[1]s	Capability mask: 0x%08[9]x
%[1]s	Port GUID: %[10]s
%[1]s	Link layer: %[11]s
`, indent, a.Port, stateName(a.State), physName(a.PhysState), int(a.Rate), a.LID, a.LMC, a.SMLID, a.CapMask, guid(a.PortGUID), cli.Printable(a.LinkLayer))
}

// printStatus prints a port in the format of the script ibstatus.
func (s *session) printStatus(a mad.PortAttr) error {
	gid := verbs.GID{}
	if len(a.GIDs) > 0 {
		gid = a.GIDs[0]
	}
	return s.Printf(`Infiniband device '%s' port %d status:
	default gid:	 %s
	base lid:	 0x%x
	sm lid:		 0x%x
	state:		 %d: %v
	phys state:	 %d: %s
	rate:		 %s
	link_layer:	 %s

`, cli.Printable(a.Device), a.Port, groups(gid), a.LID, a.SMLID, a.State, a.State, a.PhysState, physName(a.PhysState), cli.Printable(a.RateText), cli.Printable(a.LinkLayer))
}

// groups returns a GID in the format of sysfs, which omits no zeros.
func groups(g verbs.GID) string {
	text := ""
	for i := 0; i < len(g); i += 2 {
		text += fmt.Sprintf(":%02x%02x", g[i], g[i+1])
	}
	return text[1:]
}

func portTable(a mad.PortAttr) table.Table {
	t := table.Table{{Key: "ifname", Value: a.Device}, {Key: "port", Value: uint32(a.Port)}}
	t.AddText("ca_type", a.DeviceType)
	t.AddText("fw_version", a.Firmware)
	t.AddText("hw_version", a.Hardware)
	t.Add("node_guid", guid(a.NodeGUID))
	t.Add("sys_image_guid", guid(a.SystemGUID))
	t.Add("port_guid", guid(a.PortGUID))
	t.AddText("link_layer", a.LinkLayer)
	t.Add("state", stateName(a.State))
	t.Add("physical_state", physName(a.PhysState))
	t.AddText("rate", a.RateText)
	t.Add("lid", uint32(a.LID))
	t.Add("lmc", uint32(a.LMC))
	t.Add("sm_lid", uint32(a.SMLID))
	t.Add("capability_mask", fmt.Sprintf("0x%08x", a.CapMask))
	if len(a.GIDs) > 0 {
		t.Add("gid", a.GIDs[0].String())
	}
	return t
}
