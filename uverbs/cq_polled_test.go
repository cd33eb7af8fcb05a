package uverbs_test

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakesiw "github.com/goverbs/goverbs/internal/fakeverbs/siw"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestPolledChannel checks that where the kernel has no completion channels, waits poll, and end as
// others do.
func TestPolledChannel(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EINVAL, syscall.EOPNOTSUPP, syscall.ENOSYS} {
		k, dev := open(t, siw0)
		k.Refuse = func(call string) error {
			if call == "CREATE_COMP_CHANNEL" {
				return errno
			}
			return nil
		}
		channel := must[*uverbs.CompChannel](t)(dev.CreateCompChannel())
		var cqs [2]*uverbs.CQ
		var kcqs [2]*fakeverbs.CQ
		for i := range cqs {
			cqs[i] = must[*uverbs.CQ](t)(dev.CreateCQ(4, &uverbs.CQOptions{Channel: channel}))
			kcqs[i] = k.CQs()[i]
		}
		wcs := make([]verbs.WC, 4)
		waited := make(chan error)
		wait := func(ctx context.Context) {
			_, err := cqs[0].Wait(ctx, wcs)
			waited <- err
		}
		go wait(t.Context())
		fakesiw.CQOf(kcqs[0]).Complete(abi.SiwCqe{})
		if err := <-waited; err != nil {
			t.Error(err)
		}
		if err := cqs[1].Arm(false); err != nil {
			t.Error(err)
		}
		fakesiw.CQOf(kcqs[1]).Complete(abi.SiwCqe{})
		if cq, err := channel.Get(t.Context()); cq != cqs[1] || err != nil {
			t.Error(cq, err)
		}
		// Get must return although another goroutine has polled what arrived since Arm.
		if _, err := cqs[1].Poll(wcs); err != nil {
			t.Error(err)
		}
		if err := cqs[1].Arm(false); err != nil {
			t.Error(err)
		}
		fakesiw.CQOf(kcqs[1]).Complete(abi.SiwCqe{})
		if n, err := cqs[1].Poll(wcs); n != 1 || err != nil {
			t.Error(n, err)
		}
		if cq, err := channel.Get(t.Context()); cq != cqs[1] || err != nil {
			t.Error(cq, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go wait(ctx)
		cancel()
		if err := <-waited; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		go wait(t.Context())
		if err := cqs[0].Close(); err != nil {
			t.Error(err)
		}
		if err := <-waited; !errors.Is(err, verbs.ErrClosed) {
			t.Error(err)
		}
		if err := errors.Join(cqs[1].Close(), channel.Close()); err != nil {
			t.Error(err)
		}
		if err := dev.Probe("Device.CreateCompChannel"); !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("the probe says %v", err)
		}
	}
}
