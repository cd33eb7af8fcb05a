package uverbs

import (
	"fmt"
	"math"

	"github.com/goverbs/goverbs/verbs"
)

// Ports and indexes of tables are uint32 everywhere, but the kernel's structures hold
// some of them in 8 bits, and indexes of P_Keys in 16. A value that does not fit is
// refused: cut off, it would name another port or slot.

// tooWide describes the first of the attributes in mask that does not fit.
func tooWide(a *verbs.QPAttr, mask verbs.QPAttrMask) string {
	for _, f := range []struct {
		bit         verbs.QPAttrMask
		name        string
		value, most uint32
	}{
		{verbs.QPAttrPort, "Port", a.Port, math.MaxUint8},
		{verbs.QPAttrPKeyIndex, "PKeyIndex", a.PKeyIndex, math.MaxUint16},
		{verbs.QPAttrAltPath, "AltPort", a.AltPort, math.MaxUint8},
		{verbs.QPAttrAltPath, "AltPKeyIndex", a.AltPKeyIndex, math.MaxUint16},
	} {
		if mask&f.bit != 0 && f.value > f.most {
			return fmt.Sprintf("%s is %d, the kernel takes %d at most", f.name, f.value, f.most)
		}
	}
	if s := addressTooWide(&a.AH); mask&verbs.QPAttrAV != 0 && s != "" {
		return "AH." + s
	}
	if s := addressTooWide(&a.AltAH); mask&verbs.QPAttrAltPath != 0 && s != "" {
		return "AltAH." + s
	}
	return ""
}

// addressTooWide describes the first field of an address that does not fit.
func addressTooWide(a *verbs.AHAttr) string {
	switch {
	case a.Port > math.MaxUint8:
		return fmt.Sprintf("Port is %d, the kernel takes %d at most", a.Port, math.MaxUint8)
	case a.SGIDIndex > math.MaxUint8:
		return fmt.Sprintf("SGIDIndex is %d, the kernel takes %d at most", a.SGIDIndex, math.MaxUint8)
	}
	return ""
}
