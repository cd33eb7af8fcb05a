package main

import (
	"time"

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
	err := a.qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTR, DestQPN: b.qp.QPN()}, verbs.QPAttrState|verbs.QPAttrDestQPN)
	l.say("too early: %v", cause(err))

	// RTR: the address of the peer, and the limits of its requests.
	attr := a.path(b)
	attr.AH.Port = 1
	attr.State, attr.PathMTU, attr.RNRTimer, attr.MaxDestRDAtomic = verbs.QPStateRTR, verbs.MTU1024, time.Millisecond, 1
	check(a.qp.Modify(attr, verbs.QPAttrState|verbs.QPAttrAV|verbs.QPAttrPathMTU|verbs.QPAttrDestQPN|verbs.QPAttrRQPSN|
		verbs.QPAttrMaxDestRDAtomic|verbs.QPAttrRNRTimer))
	tryPosts()

	// RTS: how often and how long to try.
	check(a.qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTS, AckTimeout: 100 * time.Millisecond, RetryCnt: 7, RNRRetry: 7, MaxRDAtomic: 1},
		verbs.QPAttrState|verbs.QPAttrAckTimeout|verbs.QPAttrRetryCnt|verbs.QPAttrRNRRetry|verbs.QPAttrSQPSN|verbs.QPAttrMaxQPRDAtomic))
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
	l.closeAll()
	paths(l)
}

// paths gives a connection on InfiniBand an alternate path, and takes away the first. A port there has two
// LIDs, which the subnet manager leads different ways to.
func paths(l *lab) {
	host := rdmatest.HostOptions{Devices: []rdmatest.DeviceOptions{{Kind: rdmatest.MLX5, InfiniBand: true}}}
	network := rdmatest.NewWith(l, &rdmatest.Options{Hosts: []rdmatest.HostOptions{host, host}})
	var ends [2]*end
	var lids [2]uint16
	for i := range ends {
		ends[i] = l.inInit(place{device: network.Host(i).Device(0).Name()}, verbs.QPTypeRC)
		lids[i] = must(ends[i].dev.QueryPort(1)).LID
	}
	to := func(i int, path uint8) verbs.AHAttr {
		return verbs.AHAttr{Port: 1, DLID: lids[i] + uint16(path), SrcPathBits: path}
	}
	for i, e := range ends {
		attr := e.path(ends[1-i])
		attr.AH, attr.AckTimeout, attr.RetryCnt = to(1-i, 0), time.Millisecond, 1
		check(e.qp.Connect(attr))
	}
	a, b := ends[0], ends[1]
	theirs := b.memory(pageSize, everything)
	write := func(what string) {
		s := a.do(verbs.SendWR{Opcode: verbs.OpRDMAWrite, Inline: []byte("data"), RemoteAddr: theirs.Addr(), RKey: theirs.RKey()})
		attr := must(a.qp.Query())
		l.say("%s: %v; the sender is %v, on path %d, the receiver %v", what, s, attr.PathMigState, attr.AH.DLID-lids[1], must(b.qp.Query()).PathMigState)
	}
	write("one path")

	// Both ends load the other path, and ask for the preparation.
	for i, e := range ends {
		check(e.qp.Modify(&verbs.QPAttr{AltAH: to(1-i, 1), AltPort: 1, AltAckTimeout: time.Millisecond, PathMigState: verbs.PathMigRearm},
			verbs.QPAttrAltPath|verbs.QPAttrPathMigState))
	}
	l.say("loaded: both are %v", must(a.qp.Query()).PathMigState)
	write("two paths")

	heal := network.Host(1).Device(0).CutPath(lids[1])
	write("path 0 is cut")
	l.say("events: %v at the sender, %v at the receiver", must(a.dev.AsyncEvent(background)).Type, must(b.dev.AsyncEvent(background)).Type)
	heal()
	write("path 0 is back, and nobody has loaded it")
	network.Host(1).Device(0).CutPath(lids[1] + 1)
	write("path 1 is cut")
}
