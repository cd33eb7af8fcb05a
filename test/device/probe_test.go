//go:build vm

package device

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// onAll work on both software drivers of every kernel.
var onAll = []uverbs.Verb{"Device.QueryDevice", "Device.QueryPort", "Device.QueryGID", "Device.GIDTable", "Device.Handles", "Device.AllocPD",
	"PD.RegMR", "PD.AllocMR", "Device.CreateCompChannel", "Device.CreateCQ", "CQ.Poll", "CQ.Arm", "PD.CreateSRQ", "SRQ.PostRecv", "SRQ.Query", "SRQ.SetLimit",
	"PD.CreateQP RC", "QP.Modify", "QP.Query", "QP.PostSend", "QP.PostRecv"}

// onRXE work on rxe beside those.
var onRXE = []uverbs.Verb{"PD.RegMRAt", "PD.AllocMW 1", "PD.AllocMW 2", "MW.Bind", "PD.CreateAH", "CQ.Resize", "SRQ.Resize",
	"PD.CreateQP UC", "PD.CreateQP UD", "QP.Connect", "QP.AttachMcast"}

// onSome depend on the kernel: a method is newer than 6.1, or a driver took it up later.
var onSome = []uverbs.Verb{"Device.QueryPortSpeed", "PD.RegMR OnDemand", "PD.RegImplicitMR", "PD.AdviseMR", "PD.RegDMABuf", "PD.ImportMR", "MR.Query", "MR.Rereg"}

// TestProbe checks that Linux has the verbs that Probe says it has, refuses the others as not supported, and keeps no
// object of a probe.
func TestProbe(t *testing.T) {
	for i, typ := range kit.LinkTypes() {
		t.Run(typ, func(t *testing.T) {
			netdev, name := "probe"+typ, "gvprobe"+typ
			kit.Dummy(t, netdev, fmt.Sprintf("10.83.%d.1/24", i))
			kit.Link(t, name, typ, netdev)
			kit.NoLeak(t)
			dev := kit.Must(uverbs.Open(name))(t)
			kit.CloseLater(t, dev)
			kit.Eventually(func() bool { _, err := dev.ChooseGID(1, nil); return err == nil })
			var works []uverbs.Verb
			for _, v := range uverbs.Verbs() {
				err := dev.Probe(v)
				var e *verbs.Error
				switch {
				case err != nil && (!errors.Is(err, verbs.ErrNotSupported) || !errors.As(err, &e) || e.Device != name || e.Driver != typ):
					t.Errorf("%s: %v", v, err)
				case slices.Contains(onSome, v):
					t.Logf("%s: %v", v, err)
				case err == nil:
					works = append(works, v)
				}
			}
			want := slices.Clone(onAll)
			if typ == "rxe" {
				want = append(want, onRXE...)
			}
			slices.Sort(want)
			slices.Sort(works)
			if diff := cmp.Diff(want, works); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, kind := range []verbs.ObjectKind{verbs.ObjectPD, verbs.ObjectCQ, verbs.ObjectQP, verbs.ObjectSRQ, verbs.ObjectMR} {
				if left, err := dev.Handles(kind); len(left) > 0 || err != nil {
					t.Errorf("objects of kind %v: %v, %v", kind, left, err)
				}
			}
		})
	}
}
