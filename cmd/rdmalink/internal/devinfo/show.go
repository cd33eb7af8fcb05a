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

// Show prints the most important properties of the named device, or of all devices if
// name is empty. With out.Details it prints all properties.
func Show(m *host.Machine, out *cli.Output, name string) error {
	netdevs, _ := m.Net.List() // if the kernel does not list them, GIDs have no names of netdevs
	i := inspector{Machine: m, details: out.Details > 0, netdevs: netdevs}
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
