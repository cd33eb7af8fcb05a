package rdmatest_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestProbe checks that on every kind of device, a verb works or is refused as not supported. The
// refusal names the call, the device and its driver and, if the kernel refused, its object and method
// or its command.
func TestProbe(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
			dev := closed(t, must(uverbs.Open(f.Host(0).Device(0).Name()))(t))
			works := 0
			for _, v := range uverbs.Verbs() {
				err := dev.Probe(v)
				if err == nil {
					works++
					continue
				}
				var e *verbs.Error
				if !errors.Is(err, verbs.ErrNotSupported) || !errors.As(err, &e) || e.Op == "" || e.Object == "" ||
					e.Device != dev.Info().Name || e.Driver != dev.Info().Driver.String() {
					t.Errorf("%s: %v", v, err)
				}
				var errno syscall.Errno
				if named := strings.Contains(err.Error(), "(the kernel's "); named != errors.As(err, &errno) {
					t.Errorf("%s: the kernel's word is %v: %v", v, errno, err)
				}
			}
			if works < 20 {
				t.Errorf("%d verbs work", works)
			}
		})
	}
}

// programs has a program for verbs on which kinds of devices differ. Each is independent of the probe.
var programs = map[uverbs.Verb]func(*testing.T, *uverbs.Device) error{
	"CQ.Resize": func(t *testing.T, dev *uverbs.Device) error {
		cq := closed(t, must(dev.CreateCQ(1, nil))(t))
		err := cq.Resize(1000)
		if err == nil && cq.Cap() < 1000 {
			return fmt.Errorf("a CQ of %d", cq.Cap())
		}
		return err
	},
	"MR.Rereg": func(t *testing.T, dev *uverbs.Device) error {
		pd, other := closed(t, must(dev.AllocPD())(t)), must(dev.AllocPD())(t)
		mr := must(pd.AllocMR(4096, verbs.AccessLocalWrite, nil))(t)
		err := mr.Rereg(&uverbs.ReregOptions{PD: other})
		if err == nil && mr.PD() != other {
			err = errors.New("the PD is the old one")
		}
		return errors.Join(err, mr.Close(), other.Close())
	},
	"PD.RegMRAt": func(t *testing.T, dev *uverbs.Device) error {
		mr, err := closed(t, must(dev.AllocPD())(t)).RegMRAt(make([]byte, 64<<10)[:1], 0, verbs.AccessRemoteRead) // begins with a page
		if err != nil {
			return err
		}
		if mr.Addr() != 0 {
			err = fmt.Errorf("at %#x", mr.Addr())
		}
		return errors.Join(err, mr.Close())
	},
	"PD.AllocMW 1": func(t *testing.T, dev *uverbs.Device) error {
		mw, err := closed(t, must(dev.AllocPD())(t)).AllocMW(verbs.MWType1)
		return closing(mw, err)
	},
	"PD.RegMR OnDemand": func(t *testing.T, dev *uverbs.Device) error {
		mr, err := closed(t, must(dev.AllocPD())(t)).RegMR(make([]byte, 10000), verbs.AccessOnDemand|verbs.AccessRemoteRead)
		return closing(mr, err)
	},
	"PD.RegImplicitMR": func(t *testing.T, dev *uverbs.Device) error {
		mr, err := closed(t, must(dev.AllocPD())(t)).RegImplicitMR(verbs.AccessRemoteRead)
		return closing(mr, err)
	},
	"PD.AllocNullMR": func(t *testing.T, dev *uverbs.Device) error {
		mr, err := closed(t, must(dev.AllocPD())(t)).AllocNullMR()
		return closing(mr, err)
	},
	"Device.AllocDM": func(t *testing.T, dev *uverbs.Device) error {
		dm, err := dev.AllocDM(128, 64)
		if err != nil {
			return err
		}
		_, err = dm.WriteAt([]byte("four"), 0)
		return errors.Join(err, dm.Close())
	},
	"Device.QueryClock": func(_ *testing.T, dev *uverbs.Device) error {
		_, err := dev.QueryClock()
		return err
	},
	"Device.OpenXRCD": func(_ *testing.T, dev *uverbs.Device) error {
		x, err := dev.OpenXRCD(nil, 0o100)
		return closing(x, err)
	},
	"Device.CreateCounters": func(_ *testing.T, dev *uverbs.Device) error {
		c, err := dev.CreateCounters()
		return closing(c, err)
	},
	"CQ.PollExt": func(_ *testing.T, dev *uverbs.Device) error {
		cq, err := dev.CreateCQ(1, &uverbs.CQOptions{Ext: verbs.WCExtTimestamp})
		return closing(cq, err)
	},
	"CQ.Moderate": func(t *testing.T, dev *uverbs.Device) error {
		return closed(t, must(dev.CreateCQ(1, nil))(t)).Moderate(2, 1000)
	},
	"PD.CreateSRQ": func(t *testing.T, dev *uverbs.Device) error {
		srq, err := closed(t, must(dev.AllocPD())(t)).CreateSRQ(&uverbs.SRQOptions{MaxWR: 10, MaxSGE: 1})
		return closing(srq, err)
	},
	"PD.CreateQP UC":           ofType(verbs.QPTypeUC),
	"PD.CreateQP UD":           ofType(verbs.QPTypeUD),
	"PD.CreateQP RawPacket":    ofType(verbs.QPTypeRawPacket),
	"PD.CreateQP XRCInitiator": ofType(verbs.QPTypeXRCInitiator),
}

func ofType(typ verbs.QPType) func(*testing.T, *uverbs.Device) error {
	return func(t *testing.T, dev *uverbs.Device) error {
		cq := closed(t, must(dev.CreateCQ(8, nil))(t))
		opts := &uverbs.QPOptions{Type: typ, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxSendSGE: 1, MaxRecvWR: 4, MaxRecvSGE: 1}}
		if typ == verbs.QPTypeXRCInitiator {
			opts.RecvCQ, opts.Cap.MaxRecvWR, opts.Cap.MaxRecvSGE = nil, 0, 0
		}
		qp, err := closed(t, must(dev.AllocPD())(t)).CreateQP(opts)
		return closing(qp, err)
	}
}

func closing[T interface{ Close() error }](c T, err error) error {
	if err != nil {
		return err
	}
	return c.Close()
}

// TestProbeIsRight checks that what Probe says of a verb is what a program then meets.
func TestProbeIsRight(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
		dev := closed(t, must(uverbs.Open(f.Host(0).Device(0).Name()))(t))
		for v, program := range programs {
			t.Run(fmt.Sprint(kind, " ", v), func(t *testing.T) {
				probed := dev.Probe(v)
				if err := program(t, dev); (err == nil) != (probed == nil) || err != nil && !errors.Is(err, verbs.ErrNotSupported) {
					t.Errorf("Probe: %v; the program: %v", probed, err)
				}
			})
		}
	}
}
