package main

import "github.com/goverbs/goverbs/verbs"

// wrong is a mistake in a READ.
type wrong struct {
	what   string
	mr     verbs.Access // of the region at the peer
	qp     verbs.Access // of the peer's queue pair
	own    verbs.Access // of the local region
	change func(wr *verbs.SendWR)
}

const (
	local  = verbs.AccessLocalWrite
	remote = verbs.AccessLocalWrite | verbs.AccessRemoteRead
)

var wrongs = []wrong{
	{"nothing is wrong", remote, remote, local, nil},
	{"the region at the peer lacks RemoteRead", local, remote, local, nil},
	{"the queue pair at the peer lacks RemoteRead", remote, local, local, nil},
	{"the region here lacks LocalWrite", remote, remote, 0, nil},
	{"the rkey is another", remote, remote, local, func(wr *verbs.SendWR) { wr.RKey ^= 0x5500 }},
	{"the range ends 1 byte behind the region", remote, remote, local, func(wr *verbs.SendWR) { wr.RemoteAddr += pageSize - 8 + 1 }},
	{"the lkey is another", remote, remote, local, func(wr *verbs.SendWR) { wr.SGL[0].LKey ^= 0x5500 }},
	{"the opcode is WRITE", remote, remote, local, func(wr *verbs.SendWR) { wr.Opcode = verbs.OpRDMAWrite }},
	{"the queue pair is of type UC", remote, remote, local, nil},
}

const pageSize = 4096

// read tries a READ with one mistake at a time.
func read(l *lab) {
	for i, w := range wrongs {
		typ := verbs.QPTypeRC
		if i == len(wrongs)-1 {
			typ = verbs.QPTypeUC
		}
		a, b := l.byHand(typ, nil)
		check(b.qp.Modify(&verbs.QPAttr{Access: w.qp}, verbs.QPAttrAccess))
		theirs, ours := b.memory(pageSize, w.mr), a.memory(pageSize, w.own)
		wr := verbs.SendWR{Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled,
			SGL: []verbs.SGE{ours.SGE(0, 8)}, RemoteAddr: theirs.Addr(), RKey: theirs.RKey()}
		if w.change != nil {
			w.change(&wr)
		}
		l.say("%s:", w.what)
		if _, err := a.qp.PostSend([]verbs.SendWR{wr}); err != nil {
			l.say("    the post is refused: %v", cause(err))
		} else {
			l.say("    %v; the queue pair is in %v", wait(a.sendCQ).Status, a.state())
		}
		l.closeAll()
	}
}
