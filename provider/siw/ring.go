package siw

import (
	"fmt"
	"math"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
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

// isOne reports whether an SGL is one SGE that needs no further check.
func isOne(sgl []verbs.SGE, maxSGE int) bool {
	return len(sgl) == 1 && maxSGE > 0 && sgl[0].Length <= maxMessage
}

// maxMessage is the longest message that siw sends, in bytes: it adds up lengths in a
// C int, and takes a sum below 0 for an error.
const maxMessage = math.MaxInt32

// putSGL stores an SGL, no longer than its queue takes, in an entry.
func putSGL(to *[abi.SIW_MAX_SGE]abi.SiwSge, sgl []verbs.SGE) {
	if len(sgl) == 1 {
		to[0] = sgeOf(&sgl[0])
		return
	}
	for i := range sgl {
		to[i] = sgeOf(&sgl[i])
	}
}

func sgeOf(s *verbs.SGE) abi.SiwSge {
	return abi.SiwSge{Laddr: s.Addr, Length: s.Length, Lkey: s.LKey}
}

// putInline stores data, no more than siw takes, where the second SGE would be; the
// first tells its length.
func putInline(to *[abi.SIW_MAX_SGE]abi.SiwSge, data []byte) {
	to[0] = abi.SiwSge{Length: uint32(len(data))}
	copy(abi.Bytes(to)[inlineOffset:], data)
}

const inlineOffset = 16
