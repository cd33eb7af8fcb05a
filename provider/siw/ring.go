package siw

import (
	"fmt"
	"math"

	"github.com/goverbs/goverbs/mmap"
)

// The word that says whose an entry is stands at this offset in each of siw's
// entries, together with what else the other side must see at once.
const ownerWord = 8

// Sizes of the entries; the kernel maps a queue only at its exact size.
const (
	sqeSize  = 120
	rqeSize  = 112
	cqeSize  = 32
	ctrlSize = 8
)

type mapper interface {
	Map(offset int64, length int, prot mmap.Prot) (*mmap.Region, error)
}

// mapQueue maps n entries of a queue and extra bytes behind them, as the kernel
// offered them under key. Both numbers are the kernel's and not trusted.
func mapQueue(m mapper, key uint64, n uint32, entry, extra int) (*mmap.Region, error) {
	length := uint64(n)*uint64(entry) + uint64(extra)
	if n == 0 || length > math.MaxInt32 || key > math.MaxInt64 {
		return nil, fmt.Errorf("siw: the kernel offers a queue of %d entries at offset %#x, which can't be", n, key)
	}
	return m.Map(int64(key), int(length), mmap.ProtRead|mmap.ProtWrite)
}
