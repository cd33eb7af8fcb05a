package mlx5

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/verbs"
)

// TestMutations changes each byte that crosses the seam, each doorbell and the order of
// stores, one at a time, and compares the list of checks that notice with the golden file.
func TestMutations(t *testing.T) {
	m := providertest.Mutations{
		Answers: map[string][]uint16{
			"UAR_OBJ_ALLOC": {abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID},
			"DM_ALLOC":      {abi.MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, abi.MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX},
		},
		Bits:   bitsOf,
		Stores: storesOf,
		Address: func(s *providertest.Site, i int) bool {
			return i < addresses && strings.Contains(s.Label, "C")
		},
		Reasons:     reasons,
		RecordBytes: 4,
		Noticed:     [4]int{2968, 879, 192, 1293},
	}
	for _, o := range tours {
		o.strict = true
		m.Tours = append(m.Tours, providertest.Tour{
			Start: func(t testing.TB, change func(*fakeverbs.Kernel)) (*providertest.Pair, func()) {
				o.kernel = change
				p := newPair(t, o.pairOptions)
				if o.run == nil {
					return p.Pair, p.tour
				}
				return p.Pair, func() { o.run(p) }
			},
			Labels: func() func(*fakeverbs.Crossing) string { return o.labels() },
			Keep:   o.keeps,
			Only:   o.only,
		})
	}
	m.Test(t)
}

// tour is a run that supplies sites, or one that changes bytes of the sites of others.
type tour struct {
	pairOptions
	suffix string   // of the names of its sites, but for those that all tours have
	keep   []string // beginnings of the names of its sites; nil is all
	omit   []string // names of sites whose content others have, too
	only   func(site string, i int) bool
	run    func(*pair) // nil is pair.tour
}

var tours = append(kinds, variants()...)

// kinds are the tours that supply sites.
var kinds = []tour{
	{pairOptions: pairOptions{typ: verbs.QPTypeRC},
		omit: []string{"cqe SEND_IMM", "cqe SEND_INV", "cqe WRITE_IMM", "cqe CAS", "sqe SEND_IMM inline", "sqe SEND_INV inline", "sqe WRITE_IMM inline"}},
	{pairOptions: pairOptions{typ: verbs.QPTypeUD, srq: true},
		omit: []string{"sqe SEND inline datagram", "sqe SEND_IMM datagram", "sqe SEND_IMM inline datagram", "cqe SEND_IMM of a datagram", "cqe RECV_IMM of a datagram", "cqe RESIZE of a datagram"}},
	{pairOptions: pairOptions{typ: verbs.QPTypeRC, srq: true, device: fakemlx5.Options{CQEVersion0: true, StaticUARs: true}},
		suffix: " of version 0", keep: []string{"cqe RECV of version 0", "cqe SEND of version 0", "out QP_CREATE", "out SRQ_CREATE"}},
	{pairOptions: pairOptions{typ: verbs.QPTypeXRCInitiator},
		suffix: " of XRC", keep: []string{"in SRQ_CREATE of XRC", "in QP_CREATE of a target of XRC", "sqe SEND of XRC", "cqe RECV of XRC"}},
	{pairOptions: pairOptions{typ: verbs.QPTypeDCI},
		suffix: " of DC", keep: []string{"in QP_CREATE of DC", "in QP_CREATE of a target of DC", "out EX_MODIFY_QP with a number", "sqe WRITE of DC", "sqe SEND of DC"}},
	{pairOptions: pairOptions{typ: verbs.QPTypeRC, all: true, short: cqeInsideSize},
		suffix: ", short", keep: []string{"cqe RECV, short", "cqe RECV_IMM, short", "cqe RECV_INV, short", "cqe READ, short", "cqe CAS, short", "cqe FAA, short"}},
	{pairOptions: pairOptions{typ: verbs.QPTypeRawPacket}, run: (*pair).frames,
		suffix: " of a frame", keep: []string{"in QP_CREATE of a frame", "sqe SEND", "cqe RECV of a frame", "cqe SEND of a frame", "cqe error of RECV of a frame", "out GET_CONTEXT"}},
	{pairOptions: pairOptions{typ: verbs.QPTypeRawPacket, device: fakemlx5.Options{InlineHeaders: true}}, run: (*pair).frames,
		suffix: " of a frame", keep: []string{"sqe SEND"}},
	{pairOptions: pairOptions{typ: verbs.QPTypeRawPacket}, run: (*pair).spread,
		suffix: " of RSS", keep: []string{"in WQ_CREATE", "out WQ_CREATE", "in MODIFY_WQ", "in QP_CREATE of a hash of RSS", "cqe RECV of RSS"}},
	{pairOptions: pairOptions{typ: verbs.QPTypeRC}, run: (*pair).device,
		keep: []string{"out GET_CONTEXT", "out UAR_OBJ_ALLOC answer", "out DM_ALLOC answer"}},
}

// variants are tours of the same kinds. Some have extended completions, for the time stamps of
// those, and some long queues, for the upper byte of an index. Datagrams on InfiniBand have LIDs.
func variants() (all []tour) {
	ofCQEs := func(first, last int) func(string, int) bool {
		return func(site string, i int) bool { return strings.HasPrefix(site, "cqe ") && i >= first && i <= last }
	}
	for _, o := range kinds[:len(kinds)-1] {
		o.stamps, o.only = true, ofCQEs(48, 55)
		all = append(all, o)
		o.stamps, o.deep, o.only = false, true, ofCQEs(60, 60)
		all = append(all, o)
	}
	o := kinds[1]
	o.device.Infiniband, o.only = true, ofCQEs(16, 23)
	all = append(all, o)
	o = kinds[6]
	o.ext, o.only = verbs.WCExtFlowTag|verbs.WCExtVLAN|verbs.WCExtChecksum, func(site string, i int) bool {
		return site == "cqe RECV of a frame" && (i >= 28 && i <= 31 || i >= 57 && i <= 59)
	}
	return append(all, o)
}

// addresses is the number of bytes of the create calls that hold addresses. The content at
// another address differs from run to run.
const addresses = 16

// labels names a record, which follows a doorbell, an arriving message or a new object,
// after the doorbell before it.
func (o *tour) labels() func(*fakeverbs.Crossing) string {
	last, calls := "creation", 0
	return func(c *fakeverbs.Crossing) string {
		name := label(c, o.typ)
		if c.Call == "QP_CREATE" {
			if calls++; calls <= 2 { // the first call and its answer
				return spare
			}
		}
		switch c.Kind {
		case fakeverbs.Doorbell:
			last = "store " + name
		case fakeverbs.Record:
			name = fmt.Sprintf("%d, after %s", c.Offset, last)
		case fakeverbs.CallOut:
			return name // as in all tours
		case fakeverbs.EntryCQE:
			if o.short > 0 && c.Bytes[63]&0xc == 0 {
				return name
			}
		}
		return strings.TrimSpace(name + o.suffix)
	}
}

// spare is the name of a QP that is there for the others' numbers.
const spare = "of a spare"

func (o *tour) keeps(site string) bool {
	begins := func(with string) bool { return strings.HasPrefix(site, with) }
	switch {
	case site == "out UAR_OBJ_ALLOC", strings.HasSuffix(site, spare):
		return false // it has the number of private bytes, and is not these; it carries no traffic
	case site == "out QUERY_DEVICE":
		return false // has limits of raw packets: TestPacketLimits changes each
	case o.keep != nil && !slices.ContainsFunc(o.keep, begins):
		return false
	}
	return !slices.Contains(o.omit, site)
}

// label names a crossing by its purpose.
func label(c *fakeverbs.Crossing, typ verbs.QPType) string {
	switch c.Kind {
	case fakeverbs.CallIn, fakeverbs.CallOut:
		if c.Call == "QP_CREATE" && len(c.Bytes) > 40 && len(bytes.Trim(c.Bytes[16:28], "\x00")) == 0 {
			return c.Call + " of a target"
		}
		if c.Call == "QP_CREATE" && len(c.Bytes) > 100 {
			return c.Call + " of a hash"
		}
		if c.Kind == fakeverbs.CallOut && c.Call == "EX_MODIFY_QP" && len(bytes.Trim(c.Bytes[4:8], "\x00")) > 0 {
			return c.Call + " with a number"
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
	first := 16 * (1 + map[bool]int{true: 3}[typ == verbs.QPTypeUD || typ == verbs.QPTypeDCI] + map[bool]int{true: 1}[b[3] == opWrite || b[3] == opWriteImm])
	if typ == verbs.QPTypeRawPacket { // behind its own segment, and the one of its start
		if first = 32; b[29] > 0 {
			first += 16
			name += " with its start"
		}
	}
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
	case s.Kind == fakeverbs.EntryCQE && (i == 60 || i == 61):
		return []int{0} // of 512 receives, or 4096 blocks
	case s.Kind == fakeverbs.Record && i == 0:
		return []int{7} // more than a CQ has room for
	case live[s.String()][i] != nil:
		return live[s.String()][i]
	case s.String() == "sqe SEND" && (i < 4 || i == 7 || i == 11), s.String() == "cqe RECV" && i == 63,
		s.Kind == fakeverbs.Doorbell && len(s.Bytes) == 8 && i < 4:
		return []int{0, 1, 2, 3, 4, 5, 6, 7}
	}
	return []int{(i*3 + i/8) % 8}
}

// live are the bits that mean something, where others do not.
var live = map[string]map[int][]int{
	// So many registers that a kernel refuses, a version of completions, capabilities of libraries.
	"in GET_CONTEXT": {0: {4}, 16: {0}, 24: {0, 1}},
	// The next larger descriptors, a clock and a key of no memory, answers to CREATE_AH, a page.
	"out GET_CONTEXT": {16: {6}, 18: {4}, 36: {0, 1}, 45: {1}, 47: {0}},
	// The checksums of two layers.
	"cqe RECV of a frame": {28: {1, 2}},
	"cqe RECV of RSS":     {28: {1, 2}},
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

var because = providertest.Because

// reasons explain why a mutation can't be noticed, by anybody. The first that fits counts.
var reasons = []providertest.Reason{
	because("in GET_CONTEXT", 25, 31, "", "capabilities that no kernel knows: it ignores them"),
	because("out GET_CONTEXT", 0, 3, "", "the size of a table that libraries may make: this one's grows"),
	because("out GET_CONTEXT", 20, 21, "", "queues have powers of two of blocks: the lower bytes of their limit never count"),
	because("out GET_CONTEXT", 32, 33, "", "how many ports there are, which the core asks for itself"),
	because("out GET_CONTEXT", 34, 35, "", "flow actions, of which the provider has none"),
	because("out GET_CONTEXT", 37, 43, "", "options that were not asked for; how long the answer is, behind which are zeros"),
	because("out GET_CONTEXT", 46, 46, "", "which start of a frame must be in the request: more than that may be"),
	because("out GET_CONTEXT", 56, 59, "", "the size of UARs, which follows from their number in a page"),
	because("out GET_CONTEXT", 64, 67, "", "registers that are made with mmap, of which the provider has none"),
	because("out ALLOC_PD", 0, 3, "", "the device's number of a PD: requests name it by its handle"),
	because("out CQ_CREATE", 4, 7, "", "reserved"),
	because("out SRQ_CREATE", 4, 7, "", "reserved"),
	because("out WQ_CREATE", 0, 7, "", "how long the answer is, and what is reserved"),
	because("out CREATE_AH", 0, 3, "", "how long the answer is: a kernel that answers no MAC says so for the context"),
	because("out CREATE_AH", 10, 15, "", "reserved"),
	because("out QP_CREATE", 4, 39, "", "objects of DEVX, options that were not asked for, and reserved parts"),
	because("out DM_ALLOC answer", 2, 7, "", "where the memory is on the device, beyond its place in a page: the page has an index of its own"),
	because("out EX_MODIFY_QP with a number", 0, 3, "", "how long the answer is: a kernel that has no number fails"),
	because("out EX_MODIFY_QP with a number", 8, 15, "", "options that were not asked for, and a reserved part"),
	because("rqe", 48, 63, "", "behind the key that ends the receive"),

	because("cqe RESIZE", 0, 62, "", "the kernel's marker: it has an opcode and nothing else"),

	because("cqe RECV of a frame", 0, 28, "", "reserved for frames that are not merged or tunneled"),
	because("cqe RECV of a frame", 32, 32, "", "numbers have 24 bits"),

	// Receives. The fields of datagrams and of frames are changed in theirs.
	because("cqe RECV of a datagram", 0, 16, "", "reserved for datagrams"),
	because("cqe RECV of a datagram", 18, 21, "", "reserved for datagrams"),
	because("cqe RECV of a datagram", 28, 32, "", "reserved for datagrams; numbers have 24 bits"),
	because("cqe RECV", 0, 32, "", "where datagrams and frames have fields, and connected QPs none; numbers have 24 bits"),
	because("cqe WRITE_IMM arrived", 0, 32, "", "where datagrams and frames have fields, and connected QPs none; numbers have 24 bits"),
	because("cqe", 40, 43, "", "for tag matching, which no QP here can have"),
	because("cqe RECV", 36, 39, "", "for data or a key that the opcode says there is not"),
	because("cqe RECV", 63, 63, "123", "solicited: the device's reason for an event, said again; a message in the entry, which this CQ has not asked for"),

	// Sends.
	because("cqe FAA, short", 8, 32, "", "behind 8 bytes of data; numbers have 24 bits"),
	because("cqe CAS, short", 8, 32, "", "behind 8 bytes of data; numbers have 24 bits"),
	because("cqe error of", 0, 39, "", "reserved in an error; numbers have 24 bits"),
	because("cqe SEND of version 0", 0, 47, "", "what a send's completion has not; it is found by the QP's number"),
	because("cqe", 0, 39, "", "what a send's completion has not; numbers have 24 bits"),
	because("cqe error of", 44, 53, "", "reserved in an error"),
	because("cqe", 44, 47, "", "a length: nothing came back, or always 8 bytes"),

	because("cqe", 56, 56, "", "the operation, which the provider noted with the request"),
	because("cqe", 57, 59, "", "the QP's number: version 1 goes by its index"),
	because("cqe", 62, 62, "", "a signature, which no QP here can ask for"),
}
