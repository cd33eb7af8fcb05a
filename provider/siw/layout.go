package siw

import (
	"fmt"
	"math"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// ownerWord is the offset of the ownership word in each of siw's entries. The word also
// holds the fields that the other side must see at the same time.
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

// mapQueue maps n entries of a queue and extra bytes behind them, as the kernel offered
// them under key. Both numbers come from the kernel and are not trusted.
func mapQueue(m mapper, key uint64, n uint32, entry, extra int) (*mmap.Region, error) {
	length := uint64(n)*uint64(entry) + uint64(extra)
	if n == 0 || length > math.MaxInt32 || key > math.MaxInt64 {
		return nil, fmt.Errorf("the kernel returned an invalid queue of %d entries at offset %#x", n, key)
	}
	return m.Map(int64(key), int(length), mmap.ProtRead|mmap.ProtWrite)
}

// isOne reports whether an SGL is one SGE that needs no further check.
func isOne(sgl []verbs.SGE, maxSGE int) bool {
	return len(sgl) == 1 && maxSGE > 0 && sgl[0].Length <= maxMessage
}

// maxMessage is the longest message that siw sends, in bytes: siw adds lengths in a C int,
// and takes a negative sum for an error.
const maxMessage = math.MaxInt32

// putSGL stores an SGL in an entry. The caller has checked its length.
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

// putInline stores inline data in the place of the second SGE; the first holds the length.
// The caller has checked that data is not too long.
func putInline(to *[abi.SIW_MAX_SGE]abi.SiwSge, data []byte) {
	to[0] = abi.SiwSge{Length: uint32(len(data))}
	copy(abi.Bytes(to)[inlineOffset:], data)
}

const inlineOffset = 16
