package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// tutorial is the first program: from the list of devices to a READ. It runs both ends, so it
// need not send anything to the peer by other means.
func tutorial(l *lab) {
	here, there := l.host(rdmatest.RXE, 0), l.host(rdmatest.RXE, 1)
	n := 0
	step := func(format string, args ...any) {
		n++
		l.say("%2d %s", n, fmt.Sprintf(format, args...))
	}

	list := must(uverbs.Devices())
	found := slices.IndexFunc(list, func(i uverbs.DeviceInfo) bool { return i.Name == here.device })
	step("list the devices: ours is there: %v", found >= 0)
	dev := closing(l, must(list[found].Open()))
	step("open the device: its driver is %v", dev.Info().Driver)
	attr := must(dev.QueryDevice())
	step("ask what it can do: %d SGEs in a work request, %d READs in flight", attr.MaxSGE, attr.MaxQPRDAtom)
	port := must(dev.QueryPort(1))
	step("ask for the port: %v, %v", port.State, port.LinkLayer)
	gid := must(dev.ChooseGID(1, nil))
	step("choose a GID: %v", gid.Type)
	pd := closing(l, must(dev.AllocPD()))
	step("allocate a protection domain")
	mr := closing(l, must(pd.AllocMR(pageSize, verbs.AccessLocalWrite, nil)))
	step("register memory: %d bytes", mr.Len())
	channel := closing(l, must(dev.CreateCompChannel()))
	step("create a completion channel")
	cq := closing(l, must(dev.CreateCQ(4, &uverbs.CQOptions{Channel: channel})))
	step("create a completion queue on it")
	qp := closing(l, must(pd.CreateQP(&uverbs.QPOptions{SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})))
	step("create a queue pair: %v", must(qp.Query()).State)
	check(qp.Init(&verbs.QPAttr{Port: 1}))
	step("move it to INIT: %v", must(qp.Query()).State)

	// The peer does the same, with memory that may be read.
	peer := l.inInit(there, verbs.QPTypeRC)
	theirs := peer.memory(pageSize, verbs.AccessLocalWrite|verbs.AccessRemoteRead)
	copy(theirs.Bytes(), "hello, RDMA")
	step("exchange QP numbers, GIDs, an address and an rkey with the peer")

	check(qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTR, PathMTU: port.ActiveMTU, DestQPN: peer.qp.QPN(), RNRTimer: time.Millisecond, MaxDestRDAtomic: 1,
		AH: verbs.AHAttr{Port: 1, Global: true, DGID: peer.gid.GID, SGIDIndex: gid.Index, HopLimit: 64}},
		verbs.QPAttrState|verbs.QPAttrAV|verbs.QPAttrPathMTU|verbs.QPAttrDestQPN|verbs.QPAttrRQPSN|verbs.QPAttrMaxDestRDAtomic|verbs.QPAttrRNRTimer))
	step("move it to RTR: %v", must(qp.Query()).State)
	check(qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTS, AckTimeout: 100 * time.Millisecond, RetryCnt: 7, RNRRetry: 7, MaxRDAtomic: 1},
		verbs.QPAttrState|verbs.QPAttrAckTimeout|verbs.QPAttrRetryCnt|verbs.QPAttrRNRRetry|verbs.QPAttrSQPSN|verbs.QPAttrMaxQPRDAtomic))
	step("move it to RTS: %v", must(qp.Query()).State)
	check(peer.qp.Connect(&verbs.QPAttr{DestQPN: qp.QPN(), AH: verbs.AHAttr{Global: true, DGID: gid.GID, SGIDIndex: peer.gid.Index, HopLimit: 64}}))
	step("the peer does the same: %v", peer.state())

	check(cq.Arm(false))
	step("arm the completion queue")
	must(qp.PostSend([]verbs.SendWR{{WRID: 42, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled,
		SGL: []verbs.SGE{mr.SGE(0, 11)}, RemoteAddr: theirs.Addr(), RKey: theirs.RKey()}}))
	step("post a READ")
	must(channel.Get(background))
	step("wait for the event")
	var wcs [1]verbs.WC
	must(cq.Poll(wcs[:]))
	step("poll the completion: work request %d, %v, %v", wcs[0].WRID, wcs[0].Opcode, wcs[0].Status)
	step("use the data: %q", mr.Bytes()[:11])
}
