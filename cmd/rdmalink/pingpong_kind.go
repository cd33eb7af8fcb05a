package main

import "github.com/goverbs/goverbs/uverbs"

// pingpongKind is what tells one of C's programs from the others.
type pingpongKind struct {
	name    string // rc, as in ibv_rc_pingpong
	summary string
	without string // letters of options that are not for it
	size    int    // of a message, by default
	qpType  uverbs.QPType
	srq     bool // the QPs share a receive queue
	front   int  // bytes that a receive has in front of the message
	records int  // addresses that an end tells, used or not
}

var pingpongKinds = []*pingpongKind{
	{name: "rc", summary: "over a reliable connection", without: "q",
		size: 4096, qpType: uverbs.QPTypeRC, records: 1},
	{name: "uc", summary: "over an unreliable connection", without: "qoP",
		size: 4096, qpType: uverbs.QPTypeUC, records: 1},
	{name: "ud", summary: "with datagrams", without: "mqoP",
		size: 1024, qpType: uverbs.QPTypeUD, records: 1, front: uverbs.GRHSize},
	{name: "srq", summary: "over several reliable connections, with one shared receive queue", without: "P",
		size: 4096, qpType: uverbs.QPTypeRC, records: pingpongMaxQP, srq: true},
}

const (
	pingpongMaxQP = 256 // C: MAX_QP; an SRQ end tells this many addresses
	pingpongQKey  = 0x11111111
)
