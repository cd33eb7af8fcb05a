//go:build vm

package rxe

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
)

// TestRxeCredentialsChanged checks that write(2), by which doorbells and arming go, fails for a process that changed
// its credentials after opening the device. ioctl is not.
func TestRxeCredentialsChanged(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	p := kit.Start(t, kit.Child("rxe new user"))
	if got := p.Line(t); got != "as before" {
		t.Error(got)
	}
	p.Finish(t)
}

// rxeChangeUser reads and writes to itself, becomes another user, and goes on.
func rxeChangeUser([]string) error {
	d, err := uverbs.Open(kit.RxeLink)
	if err != nil {
		return err
	}
	defer d.Close()
	q, err := kit.NewRCQP(d)
	if err != nil {
		return err
	}
	defer q.Close()
	if err := q.Connect(q.String()); err != nil {
		return err
	}
	if err := q.WriteOnce(); err != nil {
		return err
	}
	if err := syscall.Setuid(65534); err != nil {
		return err
	}
	for range 2 {
		if err := q.WriteOnce(); err != nil {
			return fmt.Errorf("as another user: %w", err)
		}
	}
	fmt.Println("as before")
	return nil
}
