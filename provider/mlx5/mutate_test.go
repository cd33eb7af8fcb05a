package mlx5

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/verbs"
)

// TestMutations changes each byte that crosses the seam, each doorbell and the order of
// stores, one at a time, and compares the list of checks that notice with the golden file.
func TestMutations(t *testing.T) {
	m := providertest.Mutations{
		Bits:   bitsOf,
		Stores: storesOf,
		Address: func(s *providertest.Site, i int) bool {
			return i < addresses && strings.Contains(s.Label, "C")
		},
		Why:         whyNobody,
		Reasons:     reasons,
		RecordBytes: 4, Width: 38, Head: listHead, List: "testdata/mutations.txt",
	}
	for i, o := range tours {
		m.Tours = append(m.Tours, providertest.Tour{
			Start: func(t testing.TB, change func(*fakeverbs.Kernel)) (*providertest.Pair, func()) {
				o.kernel = change
				p := newPair(t, o)
				return p.Pair, p.tour
			},
			Labels: func() func(*fakeverbs.Crossing) string { return labels(i, o.typ) },
			Keep:   func(site string) bool { return interesting(i, site) },
		})
	}
	m.Test(t)
}

// tours are the runs that supply the sites, one after the other. Of the third only the
// names of queues are of interest, of the fourth the additions of XRC, and of the last the
// messages in completions.
var tours = []pairOptions{
	{typ: verbs.QPTypeRC},
	{typ: verbs.QPTypeUD, srq: true},
	{typ: verbs.QPTypeRC, srq: true, device: fakemlx5.Options{CQEVersion0: true, StaticUARs: true}},
	{typ: verbs.QPTypeXRCInitiator},
	{typ: verbs.QPTypeRC, all: true, short: cqeInsideSize},
}

// addresses is the number of bytes of the create calls that hold addresses. The content at
// another address differs from run to run.
const addresses = 16

// labels names a record, which follows a doorbell, an arriving message or a new object,
// after the doorbell before it.
func labels(tour int, typ verbs.QPType) func(*fakeverbs.Crossing) string {
	last := "creation"
	return func(c *fakeverbs.Crossing) string {
		name := label(c, typ)
		switch c.Kind {
		case fakeverbs.Doorbell:
			last = "store " + name
		case fakeverbs.Record:
			name = fmt.Sprintf("%d, after %s", c.Offset, last)
		}
		switch tour {
		case 2:
			name = strings.TrimSpace(name + " of version 0")
		case 3:
			name += " of XRC"
		}
		return name
	}
}

// interesting leaves out the sites whose content other sites have too.
func interesting(tour int, site string) bool {
	switch {
	case site == "out UAR_OBJ_ALLOC":
		return false // has the number of private bytes, and is not these
	case site == "out QUERY_DEVICE":
		return false // has limits of raw packets, which no tour sends: TestPacketLimits changes each
	case tour == 4:
		return strings.HasPrefix(site, "cqe ") && strings.HasSuffix(site, ", short")
	case tour == 3:
		return slices.Contains([]string{"in SRQ_CREATE of XRC", "in QP_CREATE of a target of XRC", "sqe SEND of XRC", "cqe RECV of XRC"}, site)
	case tour == 2:
		return slices.Contains([]string{"cqe RECV of version 0", "cqe SEND of version 0", "out QP_CREATE of version 0"}, site)
	case tour == 1:
		return !strings.Contains(site, "inline") && !strings.Contains(site, "IMM") && !strings.Contains(site, "RESIZE")
	}
	return !slices.Contains([]string{"cqe SEND_IMM", "cqe SEND_INV", "cqe WRITE_IMM", "cqe CAS", "sqe SEND_IMM inline", "sqe SEND_INV inline", "sqe WRITE_IMM inline"}, site)
}

// label names a crossing by its purpose.
func label(c *fakeverbs.Crossing, typ verbs.QPType) string {
	switch c.Kind {
	case fakeverbs.CallIn, fakeverbs.CallOut:
		if c.Call == "QP_CREATE" && len(c.Bytes) > 40 && len(bytes.Trim(c.Bytes[16:28], "\x00")) == 0 {
			return c.Call + " of a target"
		}
		return c.Call
	case fakeverbs.EntrySQE:
		return sendLabel(c.Bytes, typ)
	case fakeverbs.EntryRQE:
		if typ == verbs.QPTypeUD {
			return "of SRQ"
		}
	case fakeverbs.EntryCQE:
		op := c.Bytes[63] >> 4
		name := map[byte]string{cqeRequest: "", cqeWriteImm: "WRITE_IMM arrived", cqeRecv: "RECV", cqeRecvImm: "RECV_IMM", cqeRecvInv: "RECV_INV",
			cqeResize: "RESIZE", cqeReqError: "error of", cqeRespError: "error of RECV"}[op]
		if op == cqeRequest || op == cqeReqError {
			name = strings.TrimSpace(name + " " + opNames[c.Bytes[56]])
		}
		if typ == verbs.QPTypeUD {
			name += " of a datagram"
		}
		if c.Bytes[63]&0xc != 0 {
			name += ", short"
		}
		return name
	case fakeverbs.Doorbell:
		switch {
		case c.Offset == uarCQ:
			return "of CQ"
		case c.Size == blockSize:
			return "of a send, copied"
		}
		return "of sends"
	}
	return ""
}

func sendLabel(b []byte, typ verbs.QPType) string {
	name := opNames[b[3]]
	first := 16 * (1 + map[bool]int{true: 3}[typ == verbs.QPTypeUD] + map[bool]int{true: 1}[b[3] == opWrite || b[3] == opWriteImm])
	if len(b) > first && b[3] < opRead && b[first]&0x80 != 0 {
		name += " inline"
	}
	if b[3] == opUMR {
		name += fmt.Sprintf(" of %d segments, flags %#x", b[7]&0x3f, b[16])
	}
	if typ == verbs.QPTypeUD {
		name += " datagram"
	}
	return name
}

var opNames = map[byte]string{opWrite: "WRITE", opRead: "READ", opSend: "SEND", opSendImm: "SEND_IMM", opWriteImm: "WRITE_IMM",
	opSendInv: "SEND_INV", opCompare: "CAS", opFetchAdd: "FAA", opUMR: "UMR"}

// bitsOf is one bit of each byte, and all bits of those that hold several fields: the first
// segment of requests, the end of completions.
func bitsOf(s *providertest.Site, i int) []int {
	switch {
	case s.Kind == fakeverbs.EntryCQE && i == 61:
		return []int{0, 7}
	case s.String() == "sqe SEND" && (i < 4 || i == 7 || i == 11), s.String() == "cqe RECV" && i == 63,
		s.Kind == fakeverbs.Doorbell && len(s.Bytes) == 8 && i < 4:
		return []int{0, 1, 2, 3, 4, 5, 6, 7}
	}
	return []int{(i*3 + i/8) % 8}
}

// storesOf changes how a doorbell is stored to, and the order of stores to memory.
func storesOf(s *providertest.Site) []providertest.Change {
	switch s.Kind {
	case fakeverbs.Doorbell:
		all := []providertest.Change{
			providertest.NotMade,
			{What: "is made 256 bytes further", Do: func(_ *providertest.Pair, c *fakeverbs.Crossing) { c.Offset += 256 }},
		}
		if len(s.Bytes) == 8 {
			all = append(all, providertest.Change{What: "has 4 bytes", Do: func(_ *providertest.Pair, c *fakeverbs.Crossing) { c.Size = 4 }})
		}
		return all
	case fakeverbs.EntrySQE, fakeverbs.EntryRQE:
		return []providertest.Change{providertest.WrittenLate}
	case fakeverbs.EntryCQE:
		if s.Label != "RESIZE" { // written with the CQ held: nobody polls
			return []providertest.Change{providertest.HandedOverEarly}
		}
	}
	return nil
}

func whyNobody(site, _ string) string {
	if slices.Contains([]string{"cqe SEND", "cqe WRITE", "cqe FAA", "cqe SEND of a datagram"}, site) {
		return "nothing else of it counts but an index of the QP, which is 0 here"
	}
	return ""
}

const listHead = `What crosses the seam between provider/mlx5 and the device, changed at one place at a time, and
who notices: the model, which knows what is wrong, the traffic, which gets wrong data or none, or
nobody (-), for the reason given. "either" is one of the first two, by what is at a wrong address.
One bit of each byte was changed; all bits of bytes with several fields. TestMutations makes this list.

`

var because = providertest.Because

// reasons explain why a mutation can't be noticed.
var reasons = []providertest.Reason{
	because("in GET_CONTEXT", 0, 16, "", "more registers, or a version of completions that no device has"),
	because("in GET_CONTEXT", 24, 31, "", "capabilities that no kernel knows"),
	because("out GET_CONTEXT", 0, 3, "", "the most QPs there can be, which nobody counts"),
	because("out GET_CONTEXT", 16, 43, "", "limits that nothing here reaches, and reserved parts; TestSizes has the limits"),
	because("out GET_CONTEXT", 45, 71, "", "what other kinds of QPs need, and clocks; whether MACs are told, of which no AH here asks"),
	because("out ALLOC_PD", 0, 3, "", "the device's number of a PD, which no request here has"),
	because("out CQ_CREATE", 4, 7, "", "reserved"),
	because("out SRQ_CREATE", 0, 3, "", "completions name SRQs by it with version 0 only"),
	because("out SRQ_CREATE", 4, 7, "", "reserved"),
	because("out CREATE_AH", 0, 15, "", "the length of the answer, which is older than the MAC, and what is reserved"),
	because("out QP_CREATE", 0, 3, "", "a register, which user space chooses where UARs are dynamic"),
	because("out QP_CREATE", 4, 39, "", "what other kinds of QPs need"),
	because("rec 0, after store of sends", 0, 1, "", "a CQ has less room than it seems, and enough"),
	because("rqe", 1, 2, "", "a longer piece, of memory that is there"),
	because("rqe", 17, 18, "", "a longer piece, of memory that is there"),
	because("rqe of SRQ", 33, 35, "", "a longer piece, of memory that is there"),
	because("rqe", 48, 63, "", "behind the end of the receive"),
	because("cqe RECV of a datagram", 17, 23, "", "LIDs, which RoCE has not"),
	because("cqe RECV of a datagram", 0, 16, "", "nothing"),
	because("cqe", 0, 31, "", "what only datagrams have, and checksums"),
	because("cqe", 32, 32, "", "numbers have 24 bits"),
	because("cqe SEND of version 0", 33, 35, "", "names the SRQ of a receive"),
	because("cqe", 36, 43, "", "immediate data or a key, where there is none; tag matching"),
	because("cqe SEND", 44, 47, "", "the length of what was received"),
	because("cqe WRITE", 44, 47, "", "the length of what was received"),
	because("cqe FAA", 44, 47, "", "8 bytes always"),
	because("cqe CAS", 44, 47, "", "8 bytes always"),
	because("cqe UMR", 44, 47, "", "the length of what was received"),
	because("cqe RESIZE", 33, 62, "", "only what it is counts"),
	because("cqe error of WRITE", 44, 47, "", "the length of what was received"),
	because("cqe", 48, 53, "", "a clock"),
	because("cqe", 54, 55, "", "a clock"),
	because("cqe", 56, 56, "", "the operation, which is known from the request"),
	because("cqe", 57, 59, "", "the QP's number, where it is named by an index"),
	because("cqe", 60, 61, "012347", "of the index of a request only the bits of the queue's length count"),
	because("cqe", 62, 62, "", "a signature, which nobody asks for"),
	because("cqe RECV", 63, 63, "123", "solicited, and where inline data of the completion would be"),
}
