package uverbs_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// TestTooWide: what the kernel has too few bits for is refused, and not cut off.
func TestTooWide(t *testing.T) {
	w := newRoCE(t)
	for want, c := range map[string]struct {
		attr verbs.QPAttr
		mask verbs.QPAttrMask
	}{
		"Port is 257, the kernel takes 255":             {verbs.QPAttr{Port: 257}, verbs.QPAttrPort},
		"PKeyIndex is 65536, the kernel takes 65535":    {verbs.QPAttr{PKeyIndex: 1 << 16}, verbs.QPAttrPKeyIndex},
		"AltPort is 257, the kernel takes 255":          {verbs.QPAttr{AltPort: 257}, verbs.QPAttrAltPath},
		"AltPKeyIndex is 65536, the kernel takes 65535": {verbs.QPAttr{AltPKeyIndex: 1 << 16}, verbs.QPAttrAltPath},
		"AH.Port is 257, the kernel takes 255":          {verbs.QPAttr{AH: verbs.AHAttr{Port: 257}}, verbs.QPAttrAV},
		"AH.SGIDIndex is 256, the kernel takes 255":     {verbs.QPAttr{AH: verbs.AHAttr{SGIDIndex: 256}}, verbs.QPAttrAV},
		"AltAH.Port is 257, the kernel takes 255":       {verbs.QPAttr{AltAH: verbs.AHAttr{Port: 257}}, verbs.QPAttrAltPath},
		"AltAH.SGIDIndex is 511, the kernel takes 255":  {verbs.QPAttr{AltAH: verbs.AHAttr{SGIDIndex: 511}}, verbs.QPAttrAltPath},
	} {
		if err := w.qp.Modify(&c.attr, c.mask); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if err := w.qp.Modify(&c.attr, 0); err != nil && strings.Contains(err.Error(), "the kernel takes") {
			t.Errorf("%s, which the mask does not name: %v", want, err)
		}
	}
	wide := *address
	wide.SGIDIndex += 256
	if _, err := w.pd.CreateAH(&wide); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "SGIDIndex is 257") {
		t.Error(err)
	}
	wide = *address
	wide.Port += 256
	if _, err := w.pd.CreateAH(&wide); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "Port is 257") {
		t.Error(err)
	}
}
