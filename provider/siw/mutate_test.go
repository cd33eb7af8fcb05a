package siw

import (
	"encoding/binary"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/providertest"
)

// TestMutations changes each byte that crosses the seam, each doorbell and the order of
// stores, one at a time, and compares the list of checks that notice with the golden file.
func TestMutations(t *testing.T) {
	m := providertest.Mutations{
		Tours: []providertest.Tour{{
			Start: func(t testing.TB, change func(*fakeverbs.Kernel)) (*providertest.Pair, func()) {
				p := newPair(t, tourCQE, change)
				return p, func() { p.Tour(&script) }
			},
			Labels: labels,
		}},
		Bits:        bitsOf,
		Stores:      storesOf,
		Why:         whyNobody,
		Reasons:     reasons,
		RecordBytes: 4,
		Noticed:     [4]int{49, 584, 0, 863},
	}
	m.Test(t)
}

// tourCQE makes CQs so short that the tour goes around them.
const tourCQE = 16

// labels names the first doorbell separately, because it reports no send.
func labels() func(*fakeverbs.Crossing) string {
	return func(c *fakeverbs.Crossing) string {
		name := label(c)
		if c.Kind == fakeverbs.Doorbell && c.Value == 0 {
			name += " of nothing"
		}
		return name
	}
}

// label names a crossing by its purpose.
func label(c *fakeverbs.Crossing) string {
	switch c.Kind {
	case fakeverbs.CallIn, fakeverbs.CallOut, fakeverbs.Doorbell:
		return c.Call
	case fakeverbs.Record:
		return map[bool]string{true: "armed", false: "not armed"}[c.Value != abi.SIW_NOTIFY_NOT]
	case fakeverbs.EntrySQE:
		name := opNames[c.Bytes[opcodeAt]]
		switch flags := binary.NativeEndian.Uint16(c.Bytes[flagsAt:]); {
		case flags&abi.SIW_WQE_INLINE != 0:
			name += " inline"
		case flags&abi.SIW_WQE_SIGNALLED == 0:
			name += " unsignaled"
		}
		return name
	case fakeverbs.EntryRQE:
		if c.SRQ {
			return "of SRQ"
		}
	case fakeverbs.EntryCQE:
		return opNames[c.Bytes[cqeOpcodeAt]]
	}
	return ""
}

var opNames = map[byte]string{abi.SIW_OP_WRITE: "WRITE", abi.SIW_OP_READ: "READ", abi.SIW_OP_SEND: "SEND",
	abi.SIW_OP_SEND_REMOTE_INV: "SEND_INV", abi.SIW_OP_RECEIVE: "RECEIVE"}

// Where the parts of an entry are: struct siw_sqe and siw_cqe.
const (
	flagsAt     = 8
	opcodeAt    = 11
	cqeOpcodeAt = 9
)

// bitsOf returns one bit of each byte, and all bits of the flags.
func bitsOf(s *providertest.Site, i int) []int {
	entry := s.Kind == fakeverbs.EntrySQE || s.Kind == fakeverbs.EntryRQE || s.Kind == fakeverbs.EntryCQE
	if entry && i == flagsAt || s.Kind == fakeverbs.Record && i == 0 {
		return []int{0, 1, 2, 3, 4, 5, 6, 7}
	}
	return []int{(i*3 + i/8) % 8}
}

// storesOf changes whether and in which order memory is stored to.
func storesOf(s *providertest.Site) []providertest.Change {
	switch s.Kind {
	case fakeverbs.Doorbell:
		return []providertest.Change{providertest.NotMade}
	case fakeverbs.EntrySQE, fakeverbs.EntryRQE:
		return []providertest.Change{providertest.WrittenLate}
	case fakeverbs.EntryCQE:
		return []providertest.Change{providertest.HandedOverEarly}
	}
	return nil
}

func whyNobody(site, _ string) string {
	if site == "store POST_SEND of nothing" {
		return "it asks whether the QP is connected, and it is"
	}
	return ""
}

var because = providertest.Because

// reasons explain why a mutation can't be noticed.
var reasons = []providertest.Reason{
	because("out GET_CONTEXT", 0, 7, "", "the device's number, which nothing needs, and padding"),
	because("out CQ_CREATE", 0, 3, "", "the kernel's number of the CQ, which nothing names"),
	because("out QP_CREATE", 0, 3, "", "the kernel's number of the QP, which the core's answer has too"),
	because("out QP_CREATE", 12, 15, "", "padding"),
	because("out SRQ_CREATE", 4, 7, "", "padding"),
	because("in REG_MR", 0, 0, "", "the last byte of the key, which is the program's choice"),
	because("in REG_MR", 1, 7, "", "reserved, and padding"),
	because("out REG_MR", 0, 7, "", "the key, which the core's answer has too, and padding"),
	because("store POST_SEND", 0, 7, "", "where to tell of a send that is refused: the command has none"),
	because("store POST_SEND", 20, 22, "", "how long a request is, of which the command has none: longer than need be"),
	because("store POST_SEND", 8, 23, "", "it is refused, and the provider makes it again"),
	because("sqe SEND unsignaled", 0, 7, "", "the number for a completion, where there is none"),
	because("sqe", 8, 8, "34", "fence, which is about order only, and solicited, which counts where a CQ is armed for that: the provider arms none so"),
	because("sqe SEND inline", 10, 10, "", "the number of SGEs, where the data is inline"),
	because("sqe WRITE inline", 10, 10, "", "the number of SGEs, where the data is inline"),
	because("sqe SEND_INV", 16, 23, "", "an address at the peer, where there is none"),
	because("sqe SEND", 12, 23, "", "a key and an address at the peer, where there is none"),
	because("sqe SEND inline", 24, 31, "", "the address of an SGE, where the data is inline"),
	because("sqe WRITE inline", 24, 31, "", "the address of an SGE, where the data is inline"),
	because("sqe SEND inline", 36, 39, "", "the key of an SGE, where the data is inline"),
	because("sqe WRITE inline", 36, 39, "", "the key of an SGE, where the data is inline"),
	because("sqe", 40, 119, "", "behind the last SGE, or the end of the data"),
	because("rqe", 11, 15, "", "an operation, of which the kernel has no need, and padding"),
	because("rqe", 32, 111, "", "behind the last SGE"),
	because("cqe", 8, 8, "1234567", "flags that there are not"),
	because("cqe", 16, 23, "", "immediate data, which siw has not"),
	because("cqe", 28, 31, "", "numbers of QPs have 32 bits"),
	because("rec not armed", 0, 0, "234567", "bits that there are not"),
	because("rec armed", 0, 0, "0234567", "solicited completions, where all are asked for, and bits that there are not"),
	because("rec", 1, 3, "", "bits that there are not"),
}
