package record

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// The functions below are for both siw and rxe, whose doorbells are calls.

// queueStream returns the stream of a crossing of a queue.
func queueStream(c *fakeverbs.Crossing, kind fakeverbs.CrossingKind) string {
	switch {
	case c.SRQ:
		return fmt.Sprintf("srq%%s%d", c.Object)
	case kind == fakeverbs.EntryRQE:
		return fmt.Sprintf("qp.recv%%q%d", c.Object)
	case kind == fakeverbs.EntrySQE:
		return fmt.Sprintf("qp.send%%q%d", c.Object)
	}
	return fmt.Sprintf("cq%%c%d", c.Object)
}

// softDoorbell decodes a call of POST_SEND or REQ_NOTIFY_CQ.
func softDoorbell(c *fakeverbs.Crossing) *line {
	if c.Call == "REQ_NOTIFY_CQ" {
		var in abi.IbUverbsReqNotifyCq
		copy(abi.Bytes(&in), c.Bytes)
		l := &line{stream: queueStream(c, fakeverbs.EntryCQE), kind: "arm"}
		l.num("solicited", uint64(in.SolicitedOnly))
		return l
	}
	var in abi.IbUverbsPostSend
	copy(abi.Bytes(&in), c.Bytes)
	l := &line{stream: queueStream(c, fakeverbs.EntrySQE), kind: "doorbell"}
	l.num("waiting", c.Value)
	l.num("wrs", uint64(in.WrCount))
	l.num("sges", uint64(in.SgeCount))
	return l
}

// named adds the names of flags, and flags without a name as a number.
func (l *line) named(flags uint32, names []flagName) {
	for _, f := range names {
		if flags&f.bit != 0 {
			l.fields, flags = append(l.fields, f.name), flags&^f.bit
		}
	}
	if flags != 0 {
		l.hex("flags", uint64(flags))
	}
}

type flagName struct {
	bit  uint32
	name string
}

// sges adds n SGEs, which siw and rxe lay out as struct ibv_sge.
func (l *line) sges(b entry, n int) {
	for i := range n {
		l.sge(fmt.Sprint("sge", i), b, 16*i)
	}
}

// inline decodes data at the start of b.
func (l *line) inline(b entry, n int) {
	l.num("inline", uint64(n))
	l.add("data", fmt.Sprintf("%x", []byte(b[:min(n, len(b))])))
}

// after returns the bytes behind the first n.
func (b entry) after(n int) entry { return b[min(n, len(b)):] }
