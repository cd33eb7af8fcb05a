package uverbs_test

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/regions"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestProbeFailures makes each call to the kernel of each probe fail, but for those that destroy.
// Probe returns the error, or an answer for which it did not need the call, and leaves nothing behind.
func TestProbeFailures(t *testing.T) {
	for _, info := range []uverbs.DeviceInfo{siw0, rxe0, hollow0} {
		k, dev := open(t, info)
		must[*verbs.DeviceAttr](t)(dev.Attr()) // later calls get a copy
		var calls []string
		k.Tamper = func(call string, _ *ioctl.Request) { calls = append(calls, call) }
		for _, v := range uverbs.Verbs() {
			calls = nil
			want := dev.Probe(v)
			alive, live, nth := k.Alive(), regions.Live(), make(map[string]int)
			for _, call := range slices.Clone(calls) {
				skip := nth[call]
				nth[call]++
				if strings.HasSuffix(call, "_DESTROY") || strings.HasSuffix(call, "_FREE") || call == "DETACH_MCAST" {
					continue
				}
				k.Fail(call, skip, syscall.EIO)
				err := dev.Probe(v)
				if !errors.Is(err, syscall.EIO) && (err == nil) != (want == nil) {
					t.Errorf("%s, %s: %v after %s %d failed, else %v", info.Name, v, err, call, skip, want)
				}
				if !slices.Equal(k.Alive(), alive) || regions.Live() != live || k.Spare() > 0 {
					t.Errorf("%s, %s, %s %d: %q and %d regions, before %q and %d", info.Name, v, call, skip, k.Alive(), regions.Live(), alive, live)
				}
			}
		}
	}
}

// TestProbeWithoutProvider checks that verbs without queues work, and the others name the provider.
func TestProbeWithoutProvider(t *testing.T) {
	_, dev := open(t, uverbs.DeviceInfo{Name: "qib0", Driver: verbs.DriverQIB, Ports: 1})
	for v, want := range map[uverbs.Verb]error{
		"Device.QueryDevice": nil, "Device.AllocPD": nil, "PD.AllocMR": nil, "MR.Query": nil, "Device.OpenXRCD": nil, "XRCD.OpenQP": nil,
		"Device.CreateCQ": verbs.ErrNoProvider, "PD.CreateQP UD": verbs.ErrNoProvider, "QP.PostSend": verbs.ErrNoProvider, "MW.Bind": verbs.ErrNoProvider,
		"Device.AllocDM": verbs.ErrNoProvider, "Device.ImportFile": verbs.ErrNoProvider, "PD.AllocNullMR": verbs.ErrNotSupported, "PD.Fly": syscall.EINVAL,
	} {
		if err := dev.Probe(v); !errors.Is(err, want) || err != nil && !strings.Contains(err.Error(), " on qib0") {
			t.Errorf("%s: %v, want %v", v, err, want)
		}
	}
}

// TestProbeRights checks that a refusal for lack of rights is no answer.
func TestProbeRights(t *testing.T) {
	k, dev := open(t, hollow0)
	k.Fail("QP_CREATE", 0, syscall.EPERM)
	if err := dev.Probe("PD.CreateQP RawPacket"); !errors.Is(err, syscall.EPERM) || errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
}
