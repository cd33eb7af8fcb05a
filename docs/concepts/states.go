package main

import (
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// states moves a queue pair through its states, one step at a time.
func states(l *lab) {
	a, b := l.inReset(l.host(rdmatest.RXE, 0), verbs.QPTypeRC), l.inInit(l.host(rdmatest.RXE, 1), verbs.QPTypeRC)
	ours, theirs := a.memory(pageSize, everything), b.memory(pageSize, everything)
	tryPosts := func() {
		_, err := a.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{ours.SGE(0, 64)}}})
		l.say("%v: to post a receive: %v", a.state(), result(err))
		_, err = a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled,
			SGL: []verbs.SGE{ours.SGE(0, 8)}, RemoteAddr: theirs.Addr(), RKey: theirs.RKey()}})
		l.say("%v: to post a send: %v", a.state(), result(err))
	}
	tryPosts()

	// INIT: the port, and the rights of the peer.
	check(a.qp.Init(&verbs.QPAttr{Port: 1, Access: everything}))
	tryPosts()

	// The kernel refuses RTR without all required attributes.
	err := a.qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTR, DestQPN: b.qp.Num()}, verbs.QPAttrState|verbs.QPAttrDestQPN)
	l.say("too early: %v", cause(err))

	// RTR: the address of the peer, and the limits of its requests.
	attr := a.path(b)
	attr.AH.Port = 1
	attr.State, attr.PathMTU, attr.MinRNRTimer, attr.MaxDestRDAtomic = verbs.QPStateRTR, verbs.MTU1024, 12, 1
	check(a.qp.Modify(attr, verbs.QPAttrState|verbs.QPAttrAV|verbs.QPAttrPathMTU|verbs.QPAttrDestQPN|verbs.QPAttrRQPSN|
		verbs.QPAttrMaxDestRDAtomic|verbs.QPAttrMinRNRTimer))
	tryPosts()

	// RTS: how often and how long to try.
	check(a.qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTS, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRDAtomic: 1},
		verbs.QPAttrState|verbs.QPAttrTimeout|verbs.QPAttrRetryCnt|verbs.QPAttrRNRRetry|verbs.QPAttrSQPSN|verbs.QPAttrMaxQPRDAtomic))
	check(b.qp.Connect(b.path(a)))
	tryPosts()
	l.say("the send: %v", wait(a.sendCQ).Status)

	// CurState is the state that the program assumes.
	err = a.qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTS, CurState: verbs.QPStateInit}, verbs.QPAttrState|verbs.QPAttrCurState)
	l.say("RTS, but the program believes INIT: %v", cause(err))

	// ERR: all posted work requests complete with an error.
	check(a.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState))
	for range 3 {
		l.say("%v: a receive: %v", a.state(), wait(a.recvCQ).Status)
	}

	// RESET: the queue pair can be set up again.
	check(a.qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState))
	tryPosts()
}
