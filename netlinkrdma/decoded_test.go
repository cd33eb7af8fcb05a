package netlinkrdma

import (
	"encoding/binary"
	"slices"

	"github.com/google/go-cmp/cmp"
)

// DecodedAttributes are those whose loss some decoder notices, by the goldens;
// and the tables that objects of a dump are in.
func DecodedAttributes() map[uint16]bool {
	decoded := make(map[uint16]bool)
	for _, g := range allGoldens {
		withoutEach(g.attrs, func(typ uint16, rest string) {
			if got, err := g.parse([]byte(rest)); err != nil || !cmp.Equal(got, g.want, sameAddr) {
				decoded[typ] = true
			}
		})
	}
	tables := [][]uint16{
		{qpResource.table, qpResource.entry}, {cmIDResource.table, cmIDResource.entry}, {cqResource.table, cqResource.entry},
		{mrResource.table, mrResource.entry}, {pdResource.table, pdResource.entry}, {contextResource.table, contextResource.entry},
		{srqResource.table, srqResource.entry}, {frmrPoolResource.table, frmrPoolResource.entry}, {qpCounterResource.table, qpCounterResource.entry},
	}
	for _, typ := range slices.Concat(tables...) {
		decoded[typ] = true
	}
	return decoded
}

// nestedTypes are attributes of the goldens that have others inside.
var nestedTypes = []uint16{15, 16, 19, 20, 52, 80, 81, 107}

// withoutEach calls f for every attribute of a list, and of those inside, with
// what is left when that one is not there.
func withoutEach(attrs string, f func(typ uint16, rest string)) {
	each(attrs, func(begin, end int) {
		head := []byte(attrs[begin:end])
		n, flagged := binary.NativeEndian.Uint16(head), binary.NativeEndian.Uint16(head[2:])
		f(flagged&attrTypeMask, attrs[:begin]+attrs[end:])
		if slices.Contains(nestedTypes, flagged&attrTypeMask) {
			withoutEach(string(head[attrHeader:n]), func(typ uint16, rest string) {
				f(typ, attrs[:begin]+attr(flagged, rest)+attrs[end:])
			})
		}
	})
}
