//go:build vm

package test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
)

// attempt has a new peer carry out a request, and tells how it ended.
func (d *rxeDevice) attempt(t *testing.T, op uverbs.Opcode, addr uint64, key uint32) uverbs.Status {
	t.Helper()
	a, _ := d.pair(t, uverbs.QPTypeRC, rxeSetup{})
	return a.attempt(op, addr, key)
}

// attempt does so on a connection, which an error ends.
func (e *rxeEnd) attempt(op uverbs.Opcode, addr uint64, key uint32) uverbs.Status {
	e.t.Helper()
	e.post(uverbs.SendWR{WRID: 1, Opcode: op, Flags: uverbs.SendSignaled, SGL: []uverbs.SGE{e.mr.SGE(0, 8)}, RemoteAddr: addr, RKey: key})
	return e.next(e.sendCQ).Status
}

// outcomes are how a write and a read of the start of a region end.
func (d *rxeDevice) outcomes(t *testing.T, mr *uverbs.MR) [2]uverbs.Status {
	t.Helper()
	return [2]uverbs.Status{d.attempt(t, uverbs.OpRDMAWrite, mr.Addr(), mr.RKey()), d.attempt(t, uverbs.OpRDMARead, mr.Addr(), mr.RKey())}
}

const (
	allowed = uverbs.StatusSuccess
	denied  = uverbs.StatusRemAccessErr
)

func access(a uverbs.Access) *uverbs.Access { return &a }

// TestRxeRereg changes what peers may do with a region, and which QPs belong to
// it, in place. Linux 6.1's rxe can't.
func TestRxeRereg(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	mr := must(d.pd.AllocMR(4096, uverbs.AccessLocalWrite|uverbs.AccessRemoteRead, nil))(t)
	closeLater(t, mr)
	change := func(o uverbs.ReregOptions) bool {
		t.Helper()
		err := mr.Rereg(o)
		if onKernel("6.1") {
			if !errors.Is(err, uverbs.ErrNotSupported) {
				t.Errorf("%v", err)
			}
			return false
		}
		if err != nil {
			t.Error(err)
		}
		return true
	}
	become := func(want [2]uverbs.Status) {
		t.Helper()
		if got := d.outcomes(t, mr); got != want {
			t.Errorf("write and read end with %v, want %v", got, want)
		}
	}
	before := [2]uverbs.Status{denied, allowed}
	become(before)
	if change(uverbs.ReregOptions{Access: access(uverbs.AccessLocalWrite | uverbs.AccessRemoteWrite)}) {
		before = [2]uverbs.Status{allowed, denied}
	}
	become(before)

	other := must(d.AllocPD())(t)
	closeLater(t, other)
	if change(uverbs.ReregOptions{PD: other}) {
		if mr.PD() != other {
			t.Error("not in the other PD")
		}
		if err := other.Close(); !errors.Is(err, uverbs.ErrInUse) {
			t.Errorf("%v", err)
		}
		become([2]uverbs.Status{denied, denied})
		change(uverbs.ReregOptions{PD: d.pd, Access: access(allAccess)})
		before = [2]uverbs.Status{allowed, allowed}
	}
	become(before)
	// What is refused changes nothing.
	for _, o := range []uverbs.ReregOptions{{}, {Access: access(uverbs.AccessRemoteWrite)}, {Access: access(uverbs.AccessHugeTLB | uverbs.AccessLocalWrite)}} {
		err := mr.Rereg(o)
		if err == nil || !onKernel("6.1") && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, uverbs.ErrNotSupported) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	become(before)
	if err := mr.Rereg(uverbs.ReregOptions{}); !onKernel("6.1") && !strings.HasSuffix(err.Error(), "invalid argument: neither PD nor Access is to change") {
		t.Error(err)
	}
}
