package main

import (
	"context"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/netlinkrdma"
)

func addDeviceCommand() command {
	return command{
		names:   []string{"add"},
		args:    "NAME type SMI parent DEV",
		summary: "add a sub-device, which has part of what its parent can do",
		details: `
SMI, the subnet management interface (QP 0) of the parent's port, is the one
type there is. It needs CAP_NET_ADMIN, a kernel that knows of sub-devices, as
6.12, and hardware that has them. siw and rxe devices are added with link add.`,
		run: addDevice,
	}
}

func addDevice(_ context.Context, t *tool, w *words) error {
	var name, typ, parent string
	for _, step := range []func() error{
		func() (err error) { name, err = w.value("NAME"); return },
		func() error { return w.keyword("type") },
		func() (err error) { typ, err = w.value("TYPE (SMI)"); return },
		func() error { return w.keyword("parent") },
		func() (err error) { parent, err = w.value("DEV"); return },
		w.end,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if !strings.EqualFold(typ, "SMI") {
		return cli.Expected(typ, "TYPE (SMI)")
	}
	return t.change("add "+name, parent, func(d uint32) error { return t.RDMA.AddSubDevice(d, name, netlinkrdma.DeviceSMI) })
}

func deleteDeviceCommand() command {
	return command{
		names:   []string{"delete"},
		args:    "DEV",
		summary: "delete a sub-device",
		details: "It needs CAP_NET_ADMIN. siw and rxe devices are deleted with link delete.",
		run:     deleteDevice,
	}
}

func deleteDevice(_ context.Context, t *tool, w *words) error {
	return t.takeDeleted(w, t.RDMA.DeleteSubDevice)
}
