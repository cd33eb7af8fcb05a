package rxe

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/verbs"
)

// TestMutations changes each byte that crosses the seam, each doorbell and the order of
// stores, one at a time, and compares the list of checks that notice with the golden file.
func TestMutations(t *testing.T) {
	m := providertest.Mutations{
		Bits:        bitsOf,
		Address:     func(s *providertest.Site, _ int) bool { return s.Label == "MODIFY_SRQ" },
		Stores:      storesOf,
		Why:         whyNobody,
		Reasons:     reasons,
		RecordBytes: 4,
		Noticed:     [4]int{845, 1050, 8, 2017},
	}
	for i := range scripts {
		c := &scripts[i]
		m.Tours = append(m.Tours, providertest.Tour{
			Start: func(t testing.TB, change func(*fakeverbs.Kernel)) (*providertest.Pair, func()) {
				p := newPair(t, c.typ, tourCQE, change)
				return p, func() { p.Tour(&c.script) }
			},
			Labels: func() func(*fakeverbs.Crossing) string {
				return func(c *fakeverbs.Crossing) string { return label(c, i > 0) }
			},
			Keep: func(site string) bool { return interesting(i, site) },
		})
	}
	m.Test(t)
}

// tourCQE makes CQs so short that the tour goes around them.
const tourCQE = 15

// label names a crossing by its purpose.
func label(c *fakeverbs.Crossing, datagrams bool) (name string) {
	switch c.Kind {
	case fakeverbs.CallIn, fakeverbs.CallOut, fakeverbs.Doorbell:
		return c.Call
	case fakeverbs.Record:
		return "index of " + map[fakeverbs.CrossingKind]string{fakeverbs.EntrySQE: "sends", fakeverbs.EntryRQE: "receives", fakeverbs.EntryCQE: "completions"}[c.Queue] +
			map[bool]string{true: ", SRQ"}[c.SRQ]
	case fakeverbs.EntrySQE:
		var e abi.RxeSendWqe
		copy(abi.Bytes(&e), c.Bytes)
		name = verbs.Opcode(e.Wr.Opcode).String()
		if e.Wr.Opcode == abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP && binary.NativeEndian.Uint64(c.Bytes[32:]) == 1 {
			name += " of another number"
		}
		switch flags := e.Wr.SendFlags; {
		case flags&abi.IB_SEND_INLINE != 0:
			name += " inline"
		case flags&abi.IB_SEND_SOLICITED != 0:
			name += " solicited"
		case flags&abi.IB_SEND_SIGNALED == 0:
			name += " unsignaled"
		}
	case fakeverbs.EntryRQE:
		if c.SRQ {
			name = "of SRQ"
		}
	case fakeverbs.EntryCQE:
		var e abi.IbUverbsWc
		copy(abi.Bytes(&e), c.Bytes)
		name = "of a send"
		if op := verbs.WCOpcode(e.Opcode); op&verbs.WCRecv != 0 {
			name = op.String()
		}
		if e.WcFlags&^abi.IB_WC_GRH != 0 {
			name += fmt.Sprintf(", flags %d", e.WcFlags)
		}
	}
	if datagrams {
		name += " of a datagram"
	}
	return name
}

// interesting leaves out the sites whose content other sites have too.
func interesting(tour int, site string) bool {
	if tour == 1 {
		return site == "out CREATE_AH" || site == "sqe SEND of a datagram" || site == "sqe SEND inline of a datagram" || site == "cqe RECV of a datagram"
	}
	return !strings.Contains(site, "IMM inline")
}

// Offsets of the parts of an entry.
const (
	flagsAt = 16 // of a send
	armAt   = 64 // of the union's part that only datagrams use
	armEnd  = 144
	sgesEnd = 208 + 3*16
	recvEnd = 40 + 16
)

// bitsOf returns one bit of each byte that an entry has, and all bits of the flags of
// SENDs.
func bitsOf(s *providertest.Site, i int) []int {
	switch {
	case s.Kind == fakeverbs.EntrySQE && (i >= sgesEnd || i >= armAt && i < armEnd && s.Label != "SEND" && !strings.Contains(s.Label, "datagram")), s.Kind == fakeverbs.EntryRQE && i >= recvEnd:
		return nil
	case strings.HasPrefix(s.String(), "sqe SEND") && i == flagsAt:
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
	case fakeverbs.Record:
		return []providertest.Change{{What: "is one behind", Do: func(_ *providertest.Pair, c *fakeverbs.Crossing) { c.Value-- }}}
	}
	return nil
}

func whyNobody(site, _ string) string {
	if site == "rec index of completions" {
		return "the CQ seems to have less room than it has, and has enough"
	}
	return ""
}

var because = providertest.Because

// reasons explain why a mutation can't be noticed.
var reasons = []providertest.Reason{
	because("out CQ_CREATE", 12, 15, "", "padding"),
	because("out RESIZE_CQ", 12, 15, "", "padding"),
	because("out QP_CREATE", 12, 15, "", "padding"),
	because("out QP_CREATE", 28, 31, "", "padding"),
	because("out SRQ_CREATE", 12, 15, "", "padding"),
	because("out SRQ_CREATE", 16, 19, "", "the number of the SRQ, which only XRC needs"),
	because("out SRQ_CREATE", 20, 23, "", "reserved"),
	because("out CREATE_AH", 4, 7, "", "reserved"),
	because("store POST_SEND", 0, 7, "", "where to tell of a send that is refused: the command has none"),
	because("store POST_SEND", 20, 22, "", "how long a request is, of which the command has none: longer than need be"),
	because("rec", 1, 3, "", "an index counts modulo the length of the queue, for either side"),
	because("sqe SEND unsignaled", 0, 7, "", "the number for a completion, where there is none"),
	because("sqe", 8, 11, "", "reserved"),
	because("sqe", 16, 16, "0", "fence: it is about order only, and the model does all in order"),
	because("sqe", 16, 16, "024567", "fence, solicited, which counts as with SEND unsignaled here, and what the kernel ignores"),
	because("sqe", 17, 19, "", "flags that the kernel ignores"),
	because("sqe", 20, 23, "", "immediate data or a key, where there is none"),
	because("sqe SEND of a datagram", 40, 143, "", "the address itself, which the kernel finds by the number of the AH"),
	because("sqe SEND inline of a datagram", 40, 143, "", "the address itself, which the kernel finds by the number of the AH"),
	because("sqe SEND of a datagram", 32, 35, "", "a P_Key index, for which the kernel takes 0, and what is reserved"),
	because("sqe SEND inline of a datagram", 32, 35, "", "a P_Key index, for which the kernel takes 0, and what is reserved"),
	because("sqe SEND", 24, 143, "", "an address and a key at the peer, where there is none"),
	because("sqe LOCAL_INV", 24, 143, "", "an address and a key at the peer, where there is none"),
	because("sqe RDMA", 36, 143, "", "behind the address and the key"),
	because("sqe ATOMIC_FETCH_AND_ADD", 40, 47, "", "the number to swap in, where nothing is swapped"),
	because("sqe ATOMIC_CMP_AND_SWP of another number", 32, 47, "", "two numbers, of which the first does not stand there in any case"),
	because("sqe ATOMIC", 52, 143, "", "behind the key"),
	because("sqe BIND_MW", 56, 143, "", "behind the rights"),
	because("sqe", 152, 159, "", "an address at the peer, where there is none"),
	because("sqe", 160, 179, "", "the kernel's own: it fills them in before it looks at them, if it does"),
	because("sqe", 196, 199, "", "the number of SGEs, where the data is inline"),
	because("sqe", 204, 207, "", "reserved"),
	because("sqe", 208, 255, "", "behind the last SGE, or the end of the data"),
	because("rqe", 8, 15, "", "reserved, and padding"),
	because("rqe", 36, 39, "", "reserved"),
	because("cqe RECV", 24, 27, "", "immediate data or a key, where there is none"),
	because("cqe of a send", 24, 47, "", "what only receives have"),
	because("cqe", 37, 39, "", "flags that there are not"),
	because("cqe", 46, 47, "", "the port, of which verbs have no word, and what is reserved"),
}
