//go:build linux

package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// manyQueuePairs measures commands that list the QPs of a device with thousands of them.
func (b *bench) manyQueuePairs() error {
	n := 5000
	if b.quick || b.check {
		n = 200
	}
	l, err := b.link("rxe")
	if err != nil {
		return err
	}
	b.progress("making %d QPs", n)
	name := fmt.Sprintf("resource show qp, %d QPs", n)
	device, err := uverbs.Open(l.name)
	if err != nil {
		return err
	}
	// The QPs must exist until the process exits.
	defer runtime.KeepAlive(device)
	if err := makeQueuePairs(device, n); err != nil {
		return err
	}
	args := []string{"resource", "show", "qp"}
	b.progress("%s", name)
	return b.interleave(b.commandRun("rdma", name, args), b.commandRun("rdmalink", name, args))
}

func makeQueuePairs(device *uverbs.Device, n int) error {
	pd, err := device.AllocPD()
	if err != nil {
		return err
	}
	cq, err := device.CreateCQ(16, nil)
	if err != nil {
		return err
	}
	for i := range n {
		options := uverbs.QPOptions{Type: verbs.QPTypeRC, SendCQ: cq, RecvCQ: cq,
			Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}
		if _, err := pd.CreateQP(&options); err != nil {
			return fmt.Errorf("QP %d of %d: %w", i+1, n, err)
		}
	}
	return nil
}

func median(of []time.Duration) time.Duration {
	slices.Sort(of)
	return of[len(of)/2]
}
