package rdmatest_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// by is the path to a port's first or second LID, from the LID of the same number.
func by(lid uint16, path uint8) verbs.AHAttr {
	return verbs.AHAttr{DLID: lid + uint16(path), SrcPathBits: path, Port: 1}
}

// twoPaths are queue pairs on InfiniBand that are connected by the first LIDs, with little patience.
func twoPaths(t *testing.T, f *rdmatest.Fabric, typ verbs.QPType) (ends [2]*node, lids [2]uint16) {
	t.Helper()
	for i := range ends {
		ends[i] = newNode(t, f.Host(i).Device(0), typ, all)
		port := must(ends[i].dev.QueryPort(1))(t)
		if lids[i] = port.LID; port.LMC != 1 {
			t.Fatalf("LMC %d", port.LMC)
		}
		if caps := must(ends[i].dev.QueryDevice())(t).CapFlags; caps&verbs.DeviceCapAutoPathMig == 0 {
			t.Fatalf("%v", caps)
		}
	}
	for i, n := range ends {
		n.connect(ends[1-i], func(a *verbs.QPAttr) { a.AH, a.AckTimeout, a.RetryCnt = by(lids[1-i], 0), 1, 1 })
	}
	return ends, lids
}

// load gives both queue pairs an alternate path, which the second one expects by another LID if wrong.
func load(t *testing.T, ends [2]*node, lids [2]uint16, path, wrong uint8) {
	t.Helper()
	for i, n := range ends {
		a := &verbs.QPAttr{AltAH: by(lids[1-i], path), AltPort: 1, AltAckTimeout: 1, PathMigState: verbs.PathMigRearm}
		if i == 1 {
			a.AltAH.DLID ^= uint16(wrong)
		}
		if err := n.qp.Modify(a, verbs.QPAttrAltPath|verbs.QPAttrPathMigState); err != nil {
			t.Fatal(err)
		}
	}
}

// write writes to the peer's memory.
func (n *node) write(peer *node) verbs.Status {
	n.t.Helper()
	n.post(n.to(peer, verbs.OpRDMAWrite, 8))
	return n.next().Status
}

// wantPath checks the state of a queue pair and the LID that it sends to.
func (n *node) wantPath(state verbs.PathMigState, lid uint16) {
	n.t.Helper()
	if a := must(n.qp.Query())(n.t); a.PathMigState != state || a.AH.DLID != lid {
		n.t.Errorf("%v to LID %d, want %v to %d", a.PathMigState, a.AH.DLID, state, lid)
	}
}

// wantEvent takes the next asynchronous event, which is the queue pair's.
func (n *node) wantEvent(typ verbs.EventType) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if ev := must(n.dev.AsyncEvent(ctx))(n.t); ev.Type != typ || ev.QP != n.qp {
		n.t.Errorf("%v, want %v", ev, typ)
	}
}

// TestPathMigration checks that a connection whose path fails goes on by the alternate one, as often
// as the programs load another.
func TestPathMigration(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUC} {
		synctest.Test(t, func(t *testing.T) {
			f := infiniBand(t)
			ends, lids := twoPaths(t, f, typ)
			a, b := ends[0], ends[1]
			for path := uint8(1); path < 3; path++ {
				old, next := 1-path%2, path%2
				load(t, ends, lids, next, 0)
				a.wantPath(verbs.PathMigRearm, lids[1]+uint16(old))
				if s := a.write(b); s != verbs.StatusSuccess {
					t.Fatal(s)
				}
				if typ == verbs.QPTypeUC { // without an answer, only the receiver is armed
					a.wantPath(verbs.PathMigRearm, lids[1]+uint16(old))
					b.write(a)
				}
				a.wantPath(verbs.PathMigArmed, lids[1]+uint16(old))
				b.wantPath(verbs.PathMigArmed, lids[0]+uint16(old))
				if typ == verbs.QPTypeUC { // which has no retries
					if err := a.qp.Modify(&verbs.QPAttr{PathMigState: verbs.PathMigMigrated}, verbs.QPAttrPathMigState); err != nil {
						t.Fatal(err)
					}
				}
				heal := f.Host(1).Device(0).CutPath(lids[1] + uint16(old))
				if s := a.write(b); s != verbs.StatusSuccess {
					t.Fatal(s)
				}
				heal()
				a.wantPath(verbs.PathMigMigrated, lids[1]+uint16(next))
				b.wantPath(verbs.PathMigMigrated, lids[0]+uint16(next))
				a.wantEvent(verbs.EventPathMig)
				b.wantEvent(verbs.EventPathMig)
			}
		})
	}
}

// TestNotMigrated checks that without an alternate path that both ends have prepared, a connection
// ends with its path.
func TestNotMigrated(t *testing.T) {
	for what, c := range map[string]struct {
		prepare func(t *testing.T, ends [2]*node, lids [2]uint16)
		cut     [2]bool // the first LIDs of the ends
		event   verbs.EventType
	}{
		"no alternate path":    {func(*testing.T, [2]*node, [2]uint16) {}, [2]bool{1: true}, 0},
		"the answers get lost": {func(*testing.T, [2]*node, [2]uint16) {}, [2]bool{0: true}, 0},
		"not armed":            {func(t *testing.T, ends [2]*node, lids [2]uint16) { load(t, ends, lids, 1, 0) }, [2]bool{1: true}, 0},
		"the peer has another": {func(t *testing.T, ends [2]*node, lids [2]uint16) {
			load(t, ends, lids, 1, 1)
			ends[0].write(ends[1])
			ends[0].wantPath(verbs.PathMigArmed, lids[1])
		}, [2]bool{1: true}, verbs.EventPathMigErr},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := infiniBand(t)
				ends, lids := twoPaths(t, f, verbs.QPTypeRC)
				c.prepare(t, ends, lids)
				for i, cut := range c.cut {
					if cut {
						f.Host(i).Device(0).CutPath(lids[i])
					}
				}
				if s := ends[0].write(ends[1]); s != verbs.StatusRetryExcErr {
					t.Error(s)
				}
				if c.event != 0 {
					ends[1].wantEvent(c.event)
				}
			})
		})
	}
}

// TestMigrationRefused checks that only devices arm, an alternate path must be there, and Ethernet
// has none.
func TestMigrationRefused(t *testing.T) {
	ends, lids := twoPaths(t, infiniBand(t), verbs.QPTypeRC)
	ethernet, _ := two(t, rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5}), verbs.QPTypeRC, all)
	alternate := &verbs.QPAttr{AltAH: by(lids[1], 1), AltPort: 1, PathMigState: verbs.PathMigRearm}
	other := *alternate
	other.AltPort, other.AltAH.Port = 2, 2
	for what, c := range map[string]struct {
		qp   *uverbs.QP
		attr *verbs.QPAttr
		mask verbs.QPAttrMask
	}{
		"no alternate path": {ends[0].qp, alternate, verbs.QPAttrPathMigState},
		"armed by hand":     {ends[0].qp, &verbs.QPAttr{AltAH: by(lids[1], 1), AltPort: 1, PathMigState: verbs.PathMigArmed}, verbs.QPAttrAltPath | verbs.QPAttrPathMigState},
		"another port":      {ends[0].qp, &other, verbs.QPAttrAltPath},
		"Ethernet":          {ethernet.qp, alternate, verbs.QPAttrAltPath},
	} {
		if err := c.qp.Modify(c.attr, c.mask); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// RESET forgets the path.
	if err := ends[0].qp.Modify(alternate, verbs.QPAttrAltPath|verbs.QPAttrPathMigState); err != nil {
		t.Fatal(err)
	}
	if err := ends[0].qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState); err != nil {
		t.Fatal(err)
	}
	if a := must(ends[0].qp.Query())(t); a.PathMigState != verbs.PathMigMigrated || a.AltPort != 0 {
		t.Errorf("%+v", a)
	}
}
