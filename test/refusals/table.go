package refusals

import (
	"syscall"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Refusals is the table.
func Refusals() (all []Refusal) {
	for _, part := range [][]Refusal{queries, queues, pairs, regions, states, requests, addresses} {
		all = append(all, part...)
	}
	return all
}

func failed[T any](_ T, err error) error { return err }

var queries = []Refusal{
	{"port 0", Both, func(e *Env) error { return failed(e.Dev.QueryPort(0)) }, syscall.EINVAL},
	{"port 2", Both, func(e *Env) error { return failed(e.Dev.QueryPort(2)) }, syscall.EINVAL},
	{"GID of port 2", Both, func(e *Env) error { return failed(e.Dev.QueryGID(2, 0)) }, syscall.EINVAL},
	{"GID beyond the table", Both, func(e *Env) error { return failed(e.Dev.QueryGID(1, 5000)) }, syscall.EINVAL},
	{"GID that is not there", RXE, func(e *Env) error { return failed(e.Dev.QueryGID(1, 1000)) }, syscall.ENODATA},
}

var queues = []Refusal{
	{"CQ of too many", Both, func(e *Env) error { return made[*uverbs.CQ](e)(e.Dev.CreateCQ(1<<24, nil)) }, syscall.EINVAL},
	{"CQ with a vector beyond", Both, func(e *Env) error {
		return made[*uverbs.CQ](e)(e.Dev.CreateCQ(1, &uverbs.CQOptions{CompVector: 1 << 16}))
	}, syscall.EINVAL},
	{"CQ with time stamps", RXE, func(e *Env) error {
		return made[*uverbs.CQ](e)(e.Dev.CreateCQ(1, &uverbs.CQOptions{Flags: 1}))
	}, verbs.ErrNotSupported},
	{"CQ resized", SIW, func(e *Env) error { return e.CQ.Resize(32) }, verbs.ErrNotSupported},
	{"SRQ of no entries", Both, func(e *Env) error {
		return made[*uverbs.SRQ](e)(e.PD.CreateSRQ(&uverbs.SRQOptions{MaxSGE: 1}))
	}, syscall.EINVAL},
	{"SRQ of too many", Both, func(e *Env) error {
		return made[*uverbs.SRQ](e)(e.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1<<20 + 1, MaxSGE: 1}))
	}, syscall.EINVAL},
	{"SRQ of too many SGEs", Both, func(e *Env) error {
		return made[*uverbs.SRQ](e)(e.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1, MaxSGE: 1000}))
	}, syscall.EINVAL},
	{"SRQ resized", SIW, func(e *Env) error {
		return keep(e, must(e.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4, MaxSGE: 1}))).Resize(8)
	}, verbs.ErrNotSupported},
	{"SRQ with a limit beyond", RXE, func(e *Env) error {
		return keep(e, must(e.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4, MaxSGE: 1}))).SetLimit(1000)
	}, syscall.EINVAL},
}

var pairs = []Refusal{
	{"QP of too many sends", Both, func(e *Env) error {
		return e.create(func(o *uverbs.QPOptions) { o.Cap.MaxSendWR = 1<<20 + 1 })
	}, syscall.EINVAL},
	{"QP of too many receives", Both, func(e *Env) error {
		return e.create(func(o *uverbs.QPOptions) { o.Cap.MaxRecvWR = 1<<20 + 1 })
	}, syscall.EINVAL},
	{"QP of too many SGEs to send", Both, func(e *Env) error {
		return e.create(func(o *uverbs.QPOptions) { o.Cap.MaxSendSGE = 33 })
	}, syscall.EINVAL},
	{"QP of too many SGEs to receive", Both, func(e *Env) error {
		return e.create(func(o *uverbs.QPOptions) { o.Cap.MaxRecvSGE = 33 })
	}, syscall.EINVAL},
	{"QP of too much inline", Both, func(e *Env) error {
		return e.create(func(o *uverbs.QPOptions) { o.Cap.MaxInline = 513 })
	}, syscall.EINVAL},
	{"QP of 81 bytes inline", SIW, func(e *Env) error {
		return e.create(func(o *uverbs.QPOptions) { o.Cap.MaxInline = 81 })
	}, syscall.EINVAL},
	{"UC", SIW, func(e *Env) error { return e.create(func(o *uverbs.QPOptions) { o.Type = verbs.QPTypeUC }) }, verbs.ErrNotSupported},
	{"UD", SIW, func(e *Env) error { return e.create(func(o *uverbs.QPOptions) { o.Type = verbs.QPTypeUD }) }, verbs.ErrNotSupported},
	{"raw packets", Both, func(e *Env) error {
		return e.create(func(o *uverbs.QPOptions) { o.Type = 8 })
	}, verbs.ErrNotSupported},
	{"CQ in use", Both, func(e *Env) error { e.qp(verbs.QPTypeRC); return e.CQ.Close() }, verbs.ErrInUse},
	{"PD in use", Both, func(e *Env) error { return e.PD.Close() }, verbs.ErrInUse},
	{"PD closed twice", Both, func(e *Env) error {
		pd := must(e.Dev.AllocPD())(e.t)
		if err := pd.Close(); err != nil {
			return err
		}
		return failed(pd.AllocMR(1, 0, nil))
	}, verbs.ErrClosed},
}

var regions = []Refusal{
	{"region that peers write and we don't", Both, register(verbs.AccessRemoteWrite), syscall.EINVAL},
	{"region for atomics that we don't write", Both, register(verbs.AccessRemoteAtomic), syscall.EINVAL},
	{"region with unknown access", Both, register(1 << 19), syscall.EINVAL},
	{"region on demand", SIW, register(verbs.AccessLocalWrite | verbs.AccessOnDemand), verbs.ErrNotSupported},
	{"region that peers flush", SIW, register(verbs.AccessFlushGlobal), verbs.ErrNotSupported},
	{"region changed", SIW, func(e *Env) error { return e.MR.Rereg(&uverbs.ReregOptions{PD: e.PD}) }, verbs.ErrNotSupported},
	{"window", SIW, func(e *Env) error { return made[*uverbs.MW](e)(e.PD.AllocMW(verbs.MWType1)) }, verbs.ErrNotSupported},
	{"window of no type", RXE, func(e *Env) error { return made[*uverbs.MW](e)(e.PD.AllocMW(7)) }, syscall.EINVAL},
}

func register(a verbs.Access) func(e *Env) error {
	return func(e *Env) error { return made[*uverbs.MR](e)(e.PD.AllocMR(4096, a, nil)) }
}

var states = []Refusal{
	{"RESET to RTS", RXE, modify(verbs.QPAttr{State: verbs.QPStateRTS}, verbs.QPAttrState), syscall.EINVAL},
	{"RESET to RTR", RXE, modify(verbs.QPAttr{State: verbs.QPStateRTR}, verbs.QPAttrState), syscall.EINVAL},
	{"RESET to INIT without a port", RXE, modify(verbs.QPAttr{State: verbs.QPStateInit}, verbs.QPAttrState), syscall.EINVAL},
	{"RESET to INIT on port 2", RXE, modify(verbs.QPAttr{State: verbs.QPStateInit, Port: 2},
		verbs.QPAttrState|verbs.QPAttrPort|verbs.QPAttrPKeyIndex|verbs.QPAttrAccess), syscall.EINVAL},
	{"to RTS by hand", SIW, modify(verbs.QPAttr{State: verbs.QPStateRTS}, verbs.QPAttrState), syscall.EINVAL},
	{"to RTR by hand, which means nothing", SIW, modify(verbs.QPAttr{State: verbs.QPStateRTR}, verbs.QPAttrState), nil},
	{"to RESET by hand, which means nothing", SIW, modify(verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState), nil},
	{"to SQD by hand, which means nothing", SIW, modify(verbs.QPAttr{State: verbs.QPStateSQD}, verbs.QPAttrState), nil},
	{"to SQE by hand, which means nothing", SIW, modify(verbs.QPAttr{State: verbs.QPStateSQE}, verbs.QPAttrState), nil},
	{"to RTR with a GID that is not there", SIW, modify(verbs.QPAttr{State: verbs.QPStateRTR,
		AH: verbs.AHAttr{Port: 1, Global: true, SGIDIndex: 5}, Port: 1}, verbs.QPAttrState|verbs.QPAttrAV), syscall.EINVAL},
	{"to RTR with GIDs of two families", RXE, toRTR(func(a *verbs.QPAttr, gids []verbs.GIDEntry) { a.AH.DGID = gids[1].GID }), syscall.EINVAL},
	{"to RTR to no GID", RXE, toRTR(func(a *verbs.QPAttr, _ []verbs.GIDEntry) { a.AH.DGID = verbs.GID{} }), syscall.ENETUNREACH},
	{"to RTR with a GID that is not there", RXE, toRTR(func(a *verbs.QPAttr, _ []verbs.GIDEntry) { a.AH.SGIDIndex = 200 }), syscall.ENODATA},
	{"to RTR without a global address", RXE, toRTR(func(a *verbs.QPAttr, _ []verbs.GIDEntry) { a.AH.Global = false }), syscall.EINVAL},
	{"to RTR", RXE, toRTR(func(*verbs.QPAttr, []verbs.GIDEntry) {}), nil},
	{"ERR to ERR", Both, fromErr(verbs.QPStateErr), nil},
	{"ERR to SQD", RXE, fromErr(verbs.QPStateSQD), syscall.EINVAL},
	{"ERR to INIT", RXE, fromErr(verbs.QPStateInit), syscall.EINVAL},
	{"ERR to RTS", RXE, fromErr(verbs.QPStateRTS), syscall.EINVAL},
	{"ERR to SQD, which means nothing", SIW, fromErr(verbs.QPStateSQD), nil},
	{"ERR to RTS, which means nothing", SIW, fromErr(verbs.QPStateRTS), nil},
	{"send in RESET", RXE, func(e *Env) error { return e.send(e.qp(verbs.QPTypeRC), e.one()) }, syscall.EINVAL},
	{"send unconnected", SIW, func(e *Env) error { return e.send(e.qp(verbs.QPTypeRC), e.one()) }, syscall.ENOTCONN},
	{"receive in RESET", RXE, func(e *Env) error {
		return failed(e.qp(verbs.QPTypeRC).PostRecv([]verbs.RecvWR{{}}))
	}, syscall.EINVAL},
}

func modify(a verbs.QPAttr, mask verbs.QPAttrMask) func(e *Env) error {
	return func(e *Env) error { return e.qp(verbs.QPTypeRC).Modify(&a, mask) }
}

// toRTR moves a queue pair to RTR, connected to itself with the link-local GID at index 0. An IPv4 address is at index
// 1.
func toRTR(change func(a *verbs.QPAttr, gids []verbs.GIDEntry)) func(e *Env) error {
	return func(e *Env) error {
		qp, gids := e.ready(), must(e.Dev.GIDTable())(e.t)
		a := &verbs.QPAttr{State: verbs.QPStateRTR, PathMTU: verbs.MTU1024, DestQPN: qp.QPN(),
			AH: verbs.AHAttr{Port: 1, Global: true, DGID: gids[0].GID, SGIDIndex: gids[0].Index}}
		change(a, gids)
		return qp.Modify(a, verbs.QPAttrState|verbs.QPAttrAV|verbs.QPAttrPathMTU|verbs.QPAttrDestQPN|verbs.QPAttrRQPSN|
			verbs.QPAttrMaxDestRDAtomic|verbs.QPAttrRNRTimer)
	}
}

// fromErr moves a queue pair that is in ERR.
func fromErr(to verbs.QPState) func(e *Env) error {
	return func(e *Env) error {
		qp := e.ready()
		if err := qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState); err != nil {
			e.t.Fatal(err)
		}
		return qp.Modify(&verbs.QPAttr{State: to}, verbs.QPAttrState)
	}
}

func (e *Env) one() verbs.SendWR {
	return verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{e.MR.SGE(0, 8)}}
}

func (e *Env) send(qp *uverbs.QP, wr verbs.SendWR) error {
	return failed(qp.PostSend([]verbs.SendWR{wr}))
}

// ready makes a queue pair that takes receives.
func (e *Env) ready() *uverbs.QP {
	e.t.Helper()
	qp := e.qp(verbs.QPTypeRC)
	if e.on == RXE {
		if err := qp.Init(&verbs.QPAttr{}); err != nil {
			e.t.Fatal(err)
		}
	}
	return qp
}

var requests = []Refusal{
	{"receive of too many SGEs", Both, func(e *Env) error {
		qp := e.ready()
		sgl := make([]verbs.SGE, qp.Cap().MaxRecvSGE+1)
		return failed(qp.PostRecv([]verbs.RecvWR{{SGL: sgl}}))
	}, verbs.ErrInvalidWR},
	{"more receives than there is room for", Both, func(e *Env) error {
		qp := e.ready()
		return failed(qp.PostRecv(make([]verbs.RecvWR, qp.Cap().MaxRecvWR+1)))
	}, verbs.ErrQueueFull},
}

var addresses = []Refusal{
	{"AH", SIW, ah(func(*verbs.AHAttr) {}), verbs.ErrNotSupported},
	{"AH of port 2", RXE, ah(func(a *verbs.AHAttr) { a.Port = 2 }), syscall.EINVAL},
	{"AH without a global address", RXE, ah(func(a *verbs.AHAttr) { a.Global = false }), syscall.EINVAL},
	{"AH with a GID that is not there", RXE, ah(func(a *verbs.AHAttr) { a.SGIDIndex = 200 }), syscall.ENODATA},
	{"AH with GIDs of two families", RXE, ah(func(a *verbs.AHAttr) { a.DGID = verbs.GID{10: 0xff, 11: 0xff, 12: 10, 15: 1} }), syscall.EINVAL},
	{"AH to no GID", RXE, ah(func(a *verbs.AHAttr) { a.DGID = verbs.GID{} }), syscall.ENETUNREACH},
	{"group of an RC QP", RXE, func(e *Env) error {
		return e.qp(verbs.QPTypeRC).AttachMcast(verbs.GID{10: 0xff, 11: 0xff, 12: 239, 15: 1}, 0)
	}, syscall.EINVAL},
	{"group that is none", RXE, func(e *Env) error {
		return e.qp(verbs.QPTypeUD).AttachMcast(verbs.GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}, 0)
	}, syscall.EINVAL},
	{"left without having joined", RXE, func(e *Env) error {
		return e.qp(verbs.QPTypeUD).DetachMcast(verbs.GID{10: 0xff, 11: 0xff, 12: 239, 15: 1}, 0)
	}, syscall.EINVAL},
}

func ah(change func(*verbs.AHAttr)) func(e *Env) error {
	return func(e *Env) error {
		a := &verbs.AHAttr{Port: 1, Global: true}
		if gids, err := e.Dev.GIDTable(); err == nil && len(gids) > 0 {
			a.DGID, a.SGIDIndex = gids[0].GID, gids[0].Index
		}
		change(a)
		return made[*uverbs.AH](e)(e.PD.CreateAH(a))
	}
}
