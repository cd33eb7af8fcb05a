package verbs

import (
	"fmt"
	"math/bits"
	"strings"
)

// bitNames formats a set of bits. names maps a bit's position to its name.
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

func wordFor(kind string, words []string, v uint8) string {
	if int(v) < len(words) && words[v] != "" {
		return words[v]
	}
	return fmt.Sprintf("%s(%d)", kind, v)
}
