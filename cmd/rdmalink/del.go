package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

func delCommand() command {
	return command{
		names:   []string{"del", "delete"},
		args:    "DEV",
		summary: "delete a software RDMA device",
		details: "It needs CAP_NET_ADMIN, and waits until every process has closed the device.",
		run:     deleteLink,
	}
}

func deleteLink(_ context.Context, t *tool, w *words) error {
	name, err := w.value("DEV")
	if err != nil {
		return err
	}
	if err := w.end(); err != nil {
		return err
	}
	d, err := t.rdma.DeviceByName(name)
	if err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	err = t.rdma.DeleteLink(d.Index)
	if errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("delete %s: it belongs to hardware, or went away: only siw and rxe links can be deleted (%w)", name, errnoOf(err))
	}
	return err
}
