// Package devinfo prints all properties of devices in one table, from netlink, the
// devices themselves and sysfs.
package devinfo

import (
	"errors"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// Show prints the properties of the device of this name, or of all devices; with
// details, all properties.
func Show(m *host.Machine, out *cli.Output, name string) error {
	i := inspector{Machine: m, details: out.Details > 0, netdevs: netdevNames(m)}
	tables := []table.Table{}
	err := m.ForDevices(name, func(d netlinkrdma.Device) error {
		device, err := i.device(d)
		if err == nil {
			tables = append(tables, device)
		}
		return err
	})
	if out.JSON {
		return errors.Join(err, out.WriteJSON(tables))
	}
	return errors.Join(err, table.Write(out, tables))
}

// netdevNames finds network devices by number. Where the kernel does not list
// them they stay without a name.
func netdevNames(m *host.Machine) map[uint32]string {
	names := make(map[uint32]string)
	all, _ := m.Net.List()
	for _, d := range all {
		names[d.Index] = d.Name
	}
	return names
}
