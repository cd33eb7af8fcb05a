package pingpong

import (
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Kind describes one of C's programs.
type Kind struct {
	Name    string // rc, as in ibv_rc_pingpong
	Summary string
	without string // letters of options that are not for it
	size    int    // of a message, by default
	qpType  verbs.QPType
	srq     bool // the QPs share a receive queue
	front   int  // bytes that a receive has in front of the message
	records int  // addresses that an end sends, used or not
}

var Kinds = []*Kind{
	{Name: "rc", Summary: "over a reliable connection", without: "q",
		size: 4096, qpType: verbs.QPTypeRC, records: 1},
	{Name: "uc", Summary: "over an unreliable connection", without: "qoP",
		size: 4096, qpType: verbs.QPTypeUC, records: 1},
	{Name: "ud", Summary: "with datagrams", without: "mqoP",
		size: 1024, qpType: verbs.QPTypeUD, records: 1, front: uverbs.GRHSize},
	{Name: "srq", Summary: "over several reliable connections, with one shared receive queue", without: "P",
		size: 4096, qpType: verbs.QPTypeRC, records: maxQP, srq: true},
}

const (
	maxQP = 256 // C: MAX_QP; an SRQ end sends this many addresses
	qkey  = 0x11111111
)
