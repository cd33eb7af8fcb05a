package erdma

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/providertest"
)

// TestMutations changes each byte that crosses the seam, each doorbell and each order of
// stores, one at a time, and compares the list of checks that notice with the golden file.
func TestMutations(t *testing.T) {
	m := providertest.Mutations{
		Tours:       []providertest.Tour{{Start: startTour, Labels: labels}},
		Bits:        bitsOf,
		Stores:      storesOf,
		Address:     func(_ *providertest.Site, i int) bool { return i < addresses },
		Reasons:     reasons,
		RecordBytes: 8,
		Noticed:     [4]int{1093, 815, 144, 550},
	}
	m.Test(t)
}

func startTour(t testing.TB, change func(*fakeverbs.Kernel)) (*providertest.Pair, func()) {
	p := newPair(t, change)
	return p.Pair, p.tour
}

// addresses is the number of bytes of the create calls that hold addresses. The content at
// another address differs from run to run.
const addresses = 16

// labels names a record after the doorbell that it follows, except for new objects.
func labels() func(*fakeverbs.Crossing) string {
	last := "created"
	return func(c *fakeverbs.Crossing) string {
		name := label(c)
		switch c.Kind {
		case fakeverbs.Doorbell:
			last = name
		case fakeverbs.Record:
			if name, last = last, "created"; name == "created" && c.Value != 0 {
				return "CQ created"
			}
		}
		return name
	}
}

// label names a crossing by its purpose.
func label(c *fakeverbs.Crossing) string {
	switch c.Kind {
	case fakeverbs.CallIn, fakeverbs.CallOut:
		return c.Call
	case fakeverbs.EntrySQE:
		h := binary.LittleEndian.Uint64(c.Bytes)
		name := opNames[byte(h>>hdrOpShift&0x1f)]
		if h&hdrInline != 0 {
			name += " inline"
		}
		if h&hdrSolicited != 0 {
			name += " solicited"
		}
		if h&hdrSignaled == 0 {
			name += " unsignaled"
		}
		return name
	case fakeverbs.EntryCQE:
		return opNames[c.Bytes[1]]
	case fakeverbs.Doorbell:
		return [...]string{"", "of sends", "of receives", "of CQ"}[c.Page]
	}
	return ""
}

var opNames = map[byte]string{opWrite: "WRITE", opRead: "READ", opSend: "SEND", opSendImm: "SEND_IMM", opWriteImm: "WRITE_IMM",
	opSendInv: "SEND_INV", opCompareSwap: "CAS", opFetchAdd: "FAA", opReceive: "RECEIVE", opRecvImm: "RECV_IMM", opRecvInv: "RECV_INV",
	opRspSendImm: "RSP_SEND_IMM"}

// bitsOf are all of the first eight bytes, which are headers, doorbells and records, where
// nobody had them before, and one of each other byte.
func bitsOf(s *providertest.Site, i int) []int {
	entry := s.Kind == fakeverbs.EntrySQE || s.Kind == fakeverbs.EntryCQE
	all := s.First || !entry || s.Label == "SEND" || s.Label == "RECEIVE" || strings.Contains(s.Label, "solicited") || strings.Contains(s.Label, "unsignaled")
	if i < 8 && all {
		return []int{0, 1, 2, 3, 4, 5, 6, 7}
	}
	return []int{i * 3 % 8}
}

// storesOf changes how a doorbell is stored to, and the order of stores to memory.
func storesOf(s *providertest.Site) []providertest.Change {
	switch s.Kind {
	case fakeverbs.Doorbell:
		return []providertest.Change{
			providertest.NotMade,
			{What: "has 4 bytes", Do: func(_ *providertest.Pair, c *fakeverbs.Crossing) { c.Size = 4 }},
			{What: "is made 8 bytes further", Do: func(_ *providertest.Pair, c *fakeverbs.Crossing) { c.Offset += 8 }},
			{What: "is made to the next page", Do: func(_ *providertest.Pair, c *fakeverbs.Crossing) { c.Page = c.Page%3 + 1 }},
		}
	case fakeverbs.Record:
		if s.Label != "created" {
			return []providertest.Change{{What: "is written after the doorbell", Do: func(_ *providertest.Pair, c *fakeverbs.Crossing) { c.Value = 0 }}}
		}
	case fakeverbs.EntrySQE, fakeverbs.EntryRQE:
		return []providertest.Change{providertest.WrittenLate}
	case fakeverbs.EntryCQE:
		return []providertest.Change{providertest.HandedOverEarly}
	}
	return nil
}

var because = providertest.Because

// reasons explain why a mutation can't be noticed.
var reasons = []providertest.Reason{
	because("out GET_CONTEXT", 0, 7, "", "the device's PCI number and padding: nothing depends on them"),
	because("out GET_CONTEXT", 8, 11, "", "doorbells are laid out alike for all types but 1"),
	because("out GET_CONTEXT", 12, 15, "", "counts with type 1 only, which TestOneDoorbell has"),
	because("rqe", 8, 15, "", "reserved; rdma-core leaves there what was there"),
	because("cqe", 0, 0, "", "reserved; rdma-core does not look either"),
	because("cqe", 4, 6, "", "the device's index has 16 bits, of receives those of the queue; the rest is nobody's"),
	because("cqe", 7, 7, "34567", "of the index of a receive only the bits of the queue's length count"),
	because("cqe", 20, 31, "", "reserved"),
	because("cqe", 12, 15, "", "immediate data or a key, where there is none"),
	because("cqe SEND", 1, 1, "0", "SEND and SEND_IMM are the same to the verbs"),
	because("sqe", 2, 2, "7", "solicited: it counts where a CQ is armed for that, as with SEND unsignaled here"),
	because("sqe", 3, 3, "0", "fence: it is about order only, and the model does all in order"),
	because("sqe", 8, 11, "", "immediate data or a key, where there is none"),
	because("sqe WRITE", 28, 31, "", "reserved; rdma-core leaves there what was there"),
	because("sqe READ", 28, 31, "", "reserved; rdma-core leaves there what was there"),
	because("sqe FAA", 12, 15, "", "reserved; rdma-core leaves there what was there"),
	because("sqe CAS", 12, 15, "", "reserved; rdma-core leaves there what was there"),
	because("sqe FAA", 24, 31, "", "the number to compare with, where nothing is compared"),
	because("sqe FAA", 40, 43, "", "the length at the peer, which is always 8; rdma-core leaves there what was there"),
	because("sqe CAS", 40, 43, "", "the length at the peer, which is always 8; rdma-core leaves there what was there"),
	because("sqe SEND_IMM inline", 36, 63, "", "behind the end of the data"),
	because("sqe SEND inline", 21, 31, "", "behind the end of the data"),
	because("sqe SEND", 48, 59, "", "behind the last SGE, but for the QP's number"),
	because("sqe WRITE", 48, 59, "", "behind the last SGE, but for the QP's number"),
	because("sqe READ", 48, 63, "", "behind the end of the request"),
}
