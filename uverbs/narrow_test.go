package uverbs_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
)

// TestTooWide: what the kernel has too few bits for is refused, and not cut off.
func TestTooWide(t *testing.T) {
	w := newRoCE(t)
	for want, c := range map[string]struct {
		attr uverbs.QPAttr
		mask uverbs.QPAttrMask
	}{
		"Port is 257, the kernel takes 255":             {uverbs.QPAttr{Port: 257}, uverbs.QPAttrPort},
		"PKeyIndex is 65536, the kernel takes 65535":    {uverbs.QPAttr{PKeyIndex: 1 << 16}, uverbs.QPAttrPKeyIndex},
		"AltPort is 257, the kernel takes 255":          {uverbs.QPAttr{AltPort: 257}, uverbs.QPAttrAltPath},
		"AltPKeyIndex is 65536, the kernel takes 65535": {uverbs.QPAttr{AltPKeyIndex: 1 << 16}, uverbs.QPAttrAltPath},
		"AH.Port is 257, the kernel takes 255":          {uverbs.QPAttr{AH: uverbs.AHAttr{Port: 257}}, uverbs.QPAttrAV},
		"AH.SGIDIndex is 256, the kernel takes 255":     {uverbs.QPAttr{AH: uverbs.AHAttr{SGIDIndex: 256}}, uverbs.QPAttrAV},
		"AltAH.Port is 257, the kernel takes 255":       {uverbs.QPAttr{AltAH: uverbs.AHAttr{Port: 257}}, uverbs.QPAttrAltPath},
		"AltAH.SGIDIndex is 511, the kernel takes 255":  {uverbs.QPAttr{AltAH: uverbs.AHAttr{SGIDIndex: 511}}, uverbs.QPAttrAltPath},
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
