package uverbs

import (
	"fmt"
	"math"
)

// Ports and indexes of tables are uint32 everywhere, but the kernel's structures hold
// some of them in 8 bits, and indexes of P_Keys in 16. What does not fit is refused, so
// that no other port or slot is taken.

// tooWide names what of the attributes in mask the kernel can't be told.
func tooWide(a *QPAttr, mask QPAttrMask) string {
	for _, f := range []struct {
		bit         QPAttrMask
		name        string
		value, most uint32
	}{
		{QPAttrPort, "Port", a.Port, math.MaxUint8},
		{QPAttrPKeyIndex, "PKeyIndex", a.PKeyIndex, math.MaxUint16},
		{QPAttrAltPath, "AltPort", a.AltPort, math.MaxUint8},
		{QPAttrAltPath, "AltPKeyIndex", a.AltPKeyIndex, math.MaxUint16},
	} {
		if mask&f.bit != 0 && f.value > f.most {
			return fmt.Sprintf("%s is %d, the kernel takes %d at most", f.name, f.value, f.most)
		}
	}
	if mask&QPAttrAV != 0 && addressTooWide(&a.AH) != "" {
		return "AH." + addressTooWide(&a.AH)
	}
	if mask&QPAttrAltPath != 0 && addressTooWide(&a.AltAH) != "" {
		return "AltAH." + addressTooWide(&a.AltAH)
	}
	return ""
}

// addressTooWide names what of an address the kernel can't be told.
func addressTooWide(a *AHAttr) string {
	switch {
	case a.Port > math.MaxUint8:
		return fmt.Sprintf("Port is %d, the kernel takes %d at most", a.Port, math.MaxUint8)
	case a.SGIDIndex > math.MaxUint8:
		return fmt.Sprintf("SGIDIndex is %d, the kernel takes %d at most", a.SGIDIndex, math.MaxUint8)
	}
	return ""
}
