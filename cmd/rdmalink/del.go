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
	return t.takeDeleted(w, func(d uint32) error {
		err := t.RDMA.DeleteLink(d)
		if errors.Is(err, syscall.EINVAL) {
			return fmt.Errorf("delete RDMA device %d: it belongs to hardware, or went away: only siw and rxe links can be deleted (%w)", d, errnoOf(err))
		}
		return err
	})
}
