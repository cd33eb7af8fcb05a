//go:build vm

package test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// attempt posts a request on a new peer and returns how it ended.
func (d *rxeDevice) attempt(t *testing.T, op verbs.Opcode, addr uint64, key uint32) verbs.Status {
	t.Helper()
	a, _ := d.pair(t, verbs.QPTypeRC, rxeSetup{})
	return a.attempt(op, addr, key)
}

// attempt does so on a connection, which an error ends.
func (e *rxeEnd) attempt(op verbs.Opcode, addr uint64, key uint32) verbs.Status {
	e.t.Helper()
	e.post(verbs.SendWR{WRID: 1, Opcode: op, Flags: verbs.SendSignaled, SGL: []verbs.SGE{e.mr.SGE(0, 8)}, RemoteAddr: addr, RKey: key})
	return e.next(e.sendCQ).Status
}

// outcomes are how a write and a read of the start of a region end.
func (d *rxeDevice) outcomes(t *testing.T, mr *uverbs.MR) [2]verbs.Status {
	t.Helper()
	return [2]verbs.Status{d.attempt(t, verbs.OpRDMAWrite, mr.Addr(), mr.RKey()), d.attempt(t, verbs.OpRDMARead, mr.Addr(), mr.RKey())}
}

const (
	allowed = verbs.StatusSuccess
	denied  = verbs.StatusRemAccessErr
)

func access(a verbs.Access) *verbs.Access { return &a }

// TestRxeRereg changes peers' access to a region, and which QPs belong to
// it, in place. Linux 6.1's rxe can't.
func TestRxeRereg(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	mr := must(d.pd.AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessRemoteRead, nil))(t)
	closeLater(t, mr)
	change := func(o uverbs.ReregOptions) bool {
		t.Helper()
		err := mr.Rereg(o)
		if onKernel("6.1") {
			if !errors.Is(err, verbs.ErrNotSupported) {
				t.Errorf("%v", err)
			}
			return false
		}
		if err != nil {
			t.Error(err)
		}
		return true
	}
	become := func(want [2]verbs.Status) {
		t.Helper()
		if got := d.outcomes(t, mr); got != want {
			t.Errorf("write and read end with %v, want %v", got, want)
		}
	}
	before := [2]verbs.Status{denied, allowed}
	become(before)
	if change(uverbs.ReregOptions{Access: access(verbs.AccessLocalWrite | verbs.AccessRemoteWrite)}) {
		before = [2]verbs.Status{allowed, denied}
	}
	become(before)

	other := must(d.AllocPD())(t)
	closeLater(t, other)
	if change(uverbs.ReregOptions{PD: other}) {
		if mr.PD() != other {
			t.Error("not in the other PD")
		}
		if err := other.Close(); !errors.Is(err, verbs.ErrInUse) {
			t.Errorf("%v", err)
		}
		become([2]verbs.Status{denied, denied})
		change(uverbs.ReregOptions{PD: d.pd, Access: access(allAccess)})
		before = [2]verbs.Status{allowed, allowed}
	}
	become(before)
	// A refused call changes nothing.
	for _, o := range []uverbs.ReregOptions{{}, {Access: access(verbs.AccessRemoteWrite)}, {Access: access(verbs.AccessHugeTLB | verbs.AccessLocalWrite)}} {
		err := mr.Rereg(o)
		if err == nil || !onKernel("6.1") && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	become(before)
	if err := mr.Rereg(uverbs.ReregOptions{}); !onKernel("6.1") && !strings.HasSuffix(err.Error(), "invalid argument: neither PD nor Access is to change") {
		t.Error(err)
	}
}
