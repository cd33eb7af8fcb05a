package driver

import (
	"fmt"
	"math/bits"
	"strings"
)

// bitNames prints a set of bits, of which names tells those that have one by
// their position.
func bitNames(v uint64, names map[int]string) string {
	if v == 0 {
		return "0"
	}
	var parts []string
	var rest uint64
	for v != 0 {
		bit := bits.TrailingZeros64(v)
		v &^= 1 << bit
		if name, ok := names[bit]; ok {
			parts = append(parts, name)
			continue
		}
		rest |= 1 << bit
	}
	if rest != 0 {
		parts = append(parts, fmt.Sprintf("%#x", rest))
	}
	return strings.Join(parts, "|")
}
