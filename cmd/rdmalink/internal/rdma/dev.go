package rdma

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// devCommand returns rdma dev: the properties of devices, as opposed to their ports.
func devCommand() cli.Command {
	return cli.Command{
		Names:   []string{"dev"},
		Leads:   true,
		Summary: "show RDMA devices, rename them, move them, and add sub-devices",
		Sub:     []cli.Command{addDeviceCommand(), deleteDeviceCommand(), showDevicesCommand(), setDeviceCommand(), cli.HelpCommand("dev")},
		Run:     showDevices,
	}
}

func showDevicesCommand() cli.Command {
	return cli.Command{
		Names:   []string{"show", "list"},
		Leads:   true,
		Args:    "[DEV]",
		Summary: "show RDMA devices; with -d also their capabilities",
		Details: "Text and JSON are those of iproute2's rdma dev show.",
		Run:     showDevices,
	}
}

func showDevices(_ context.Context, t *cli.Tool, w *cli.Words) error {
	name, err := w.LastValue("DEV")
	if err != nil {
		return err
	}
	p := newPrinter(t)
	err = t.ForDevices(name, func(d netlinkrdma.Device) error {
		p.device(d, t.Details > 0)
		return nil
	})
	return p.close(err)
}

func (p *printer) device(d netlinkrdma.Device, details bool) {
	p.begin()
	if p.json {
		p.uint("ifindex", uint64(d.Index))
		p.word("ifname", d.Name)
	}
	p.text(fmt.Sprintf("%d: %s: ", d.Index, d.Name))
	p.word("node_type", d.NodeType.String())
	p.wordIf("protocol", d.Protocol)
	p.wordIf("fw", d.FWVersion)
	p.word("node_guid", d.NodeGUID.String())
	p.word("sys_image_guid", d.SysImageGUID.String())
	p.wordIf("type", d.Type.String())
	p.wordIf("parent", d.Parent)
	if details {
		if d.AdaptiveModeration.Known {
			p.onOff("adaptive-moderation", d.AdaptiveModeration.Value)
		}
		p.caps(d.CapFlags, deviceCapNames[:])
	}
	p.end(0)
}

func setDeviceCommand() cli.Command {
	return cli.Command{
		Names:   []string{"set"},
		Args:    "DEV { name NEWNAME | netns NETNS | adaptive-moderation { on | off } }",
		Summary: "rename a device, move it to a network namespace, or set its interrupt moderation",
		Details: `
NETNS is a name that ip netns add gave (a file in /run/netns), a path, or the
number of a process. Devices can be moved in exclusive mode only (see system set),
from the namespace in which rdmalink runs, and lose their users. siw and rxe devices
can't be moved. All this needs CAP_NET_ADMIN.

adaptive-moderation applies to queues that the kernel creates later.`,
		Run: setDevice,
	}
}

func setDevice(_ context.Context, t *cli.Tool, w *cli.Words) error {
	name, err := w.Value("DEV")
	if err != nil {
		return err
	}
	set, err := deviceSetting(t, w)
	if err != nil {
		return err
	}
	if err := w.End(); err != nil {
		return err
	}
	return changeDevice(t, "set "+name, name, set)
}

// deviceSetting parses a setting, and returns the function that applies it.
func deviceSetting(t *cli.Tool, w *cli.Words) (set func(device uint32) error, err error) {
	setting, err := w.OneOf("name", "netns", "adaptive-moderation")
	switch {
	case err != nil:
		return nil, err
	case setting == "name":
		name, err := w.Value("NEWNAME")
		return func(device uint32) error { return t.RDMA.RenameDevice(device, name) }, err
	case setting == "netns":
		netns, err := w.Value("NETNS")
		return func(device uint32) error { return moveDevice(t, device, netns) }, err
	}
	on, err := w.OnOff()
	return func(device uint32) error { return t.RDMA.SetAdaptiveModeration(device, on) }, err
}

func moveDevice(t *cli.Tool, device uint32, netns string) error {
	to, err := openNetns(netns)
	if err != nil {
		return err
	}
	defer to.Close()
	return t.RDMA.MoveDevice(device, to)
}

// netnsDir is the directory of the names that ip netns add gives.
const netnsDir = "/run/netns"

// openNetns opens a network namespace, given as a path, a name or a process.
//
// C: netns_get_fd
func openNetns(word string) (*os.File, error) {
	if strings.Contains(word, "/") {
		return os.Open(word)
	}
	f, err := os.Open(filepath.Join(netnsDir, word))
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if _, notNumber := strconv.ParseUint(word, 10, 31); notNumber != nil {
		return nil, fmt.Errorf("no network namespace %q (%s); expected one of these names, a path, or the number of a process", word, netnsNames())
	}
	f, err = os.Open(filepath.Join("/proc", word, "ns/net"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no network namespace %q: no process has that number, and no namespace has that name (%s)", word, netnsNames())
	}
	return f, err
}

func netnsNames() string {
	names := netnsEntries()
	if len(names) == 0 {
		return netnsDir + " holds none"
	}
	return netnsDir + " holds: " + strings.Join(names, ", ")
}

func addDeviceCommand() cli.Command {
	return cli.Command{
		Names:   []string{"add"},
		Args:    "NAME type SMI parent DEV",
		Summary: "add a sub-device, which has some of the functions of its parent",
		Details: `
The only type is SMI, the subnet management interface (QP 0) of the parent's port.
This needs CAP_NET_ADMIN, a kernel with sub-devices, such as 6.12, and hardware that
has them. siw and rxe devices are added with link add.`,
		Run: addDevice,
	}
}

func addDevice(_ context.Context, t *cli.Tool, w *cli.Words) error {
	var name, typ, parent string
	for _, step := range []func() error{
		func() (err error) { name, err = w.Value("NAME"); return },
		func() error { return w.Keyword("type") },
		func() (err error) { typ, err = w.Value("TYPE (SMI)"); return },
		func() error { return w.Keyword("parent") },
		func() (err error) { parent, err = w.Value("DEV"); return },
		w.End,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if !strings.EqualFold(typ, "SMI") {
		return cli.Expected(typ, "TYPE (SMI)")
	}
	return changeDevice(t, "add "+name, parent, func(d uint32) error { return t.RDMA.AddSubDevice(d, name, netlinkrdma.DeviceSMI) })
}

func deleteDeviceCommand() cli.Command {
	return cli.Command{
		Names:   []string{"delete"},
		Args:    "DEV",
		Summary: "delete a sub-device",
		Details: "This needs CAP_NET_ADMIN. siw and rxe devices are deleted with link delete.",
		Run:     deleteDevice,
	}
}

func deleteDevice(_ context.Context, t *cli.Tool, w *cli.Words) error {
	return takeDeleted(t, w, t.RDMA.DeleteSubDevice)
}

// changeDevice calls f with the index of the device of this name. operation names the
// change in errors.
func changeDevice(t *cli.Tool, operation, name string, f func(device uint32) error) error {
	d, err := t.RDMA.DeviceByName(name)
	if err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	return host.Named(d, f(d.Index))
}

// takeDeleted takes the name of a device, which ends the line, and deletes the device with
// f.
func takeDeleted(t *cli.Tool, w *cli.Words, f func(device uint32) error) error {
	name, err := w.Value("DEV")
	if err != nil {
		return err
	}
	if err := w.End(); err != nil {
		return err
	}
	return changeDevice(t, "delete "+name, name, f)
}

// noPort returns the error for a port that the device does not have.
func noPort(d netlinkrdma.Device, port int) error {
	return fmt.Errorf("%s has no port %d, it has %d", d.Name, port, d.Ports)
}
