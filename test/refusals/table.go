package refusals

import (
	"syscall"

	"github.com/goverbs/goverbs/uverbs"
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
	}, uverbs.ErrNotSupported},
	{"CQ resized", SIW, func(e *Env) error { return e.CQ.Resize(32) }, uverbs.ErrNotSupported},
	{"SRQ of no entries", Both, func(e *Env) error {
		return made[*uverbs.SRQ](e)(e.PD.CreateSRQ(&uverbs.SRQOptions{MaxSGE: 1}))
	}, syscall.EINVAL},
	{"SRQ of too many", Both, func(e *Env) error {
		return made[*uverbs.SRQ](e)(e.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1<<20 + 1, MaxSGE: 1}))
	}, syscall.EINVAL},
	{"SRQ of too many SGEs", Both, func(e *Env) error {
		return made[*uverbs.SRQ](e)(e.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1, MaxSGE: 1000}))
	}, syscall.EINVAL},
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
	{"QP of too much inline", RXE, func(e *Env) error {
		return e.create(func(o *uverbs.QPOptions) { o.Cap.MaxInline = 513 })
	}, syscall.EINVAL},
	{"UC", SIW, func(e *Env) error { return e.create(func(o *uverbs.QPOptions) { o.Type = uverbs.QPTypeUC }) }, uverbs.ErrNotSupported},
	{"UD", SIW, func(e *Env) error { return e.create(func(o *uverbs.QPOptions) { o.Type = uverbs.QPTypeUD }) }, uverbs.ErrNotSupported},
	{"raw packets", Both, func(e *Env) error {
		return e.create(func(o *uverbs.QPOptions) { o.Type = 8 })
	}, uverbs.ErrNotSupported},
	{"CQ in use", Both, func(e *Env) error { e.qp(uverbs.QPTypeRC); return e.CQ.Close() }, uverbs.ErrInUse},
	{"PD in use", Both, func(e *Env) error { return e.PD.Close() }, uverbs.ErrInUse},
	{"PD closed twice", Both, func(e *Env) error {
		pd := must(e.Dev.AllocPD())(e.t)
		if err := pd.Close(); err != nil {
			return err
		}
		return failed(pd.AllocMR(1, 0, nil))
	}, uverbs.ErrClosed},
}

var regions = []Refusal{
	{"region that peers write and we don't", Both, register(uverbs.AccessRemoteWrite), syscall.EINVAL},
	{"region for atomics that we don't write", Both, register(uverbs.AccessRemoteAtomic), syscall.EINVAL},
	{"region with unknown access", Both, register(1 << 19), syscall.EINVAL},
	{"region on demand", SIW, register(uverbs.AccessLocalWrite | uverbs.AccessOnDemand), uverbs.ErrNotSupported},
	{"region that peers flush", SIW, register(uverbs.AccessFlushGlobal), uverbs.ErrNotSupported},
	{"region changed", SIW, func(e *Env) error { return e.MR.Rereg(uverbs.ReregOptions{PD: e.PD}) }, uverbs.ErrNotSupported},
	{"window", SIW, func(e *Env) error { return made[*uverbs.MW](e)(e.PD.AllocMW(uverbs.MWType1)) }, uverbs.ErrNotSupported},
	{"window of no type", RXE, func(e *Env) error { return made[*uverbs.MW](e)(e.PD.AllocMW(7)) }, syscall.EINVAL},
}

func register(a uverbs.Access) func(e *Env) error {
	return func(e *Env) error { return made[*uverbs.MR](e)(e.PD.AllocMR(4096, a, nil)) }
}

var states = []Refusal{
	{"RESET to RTS", RXE, modify(uverbs.QPAttr{State: uverbs.QPStateRTS}, uverbs.QPAttrState), syscall.EINVAL},
	{"RESET to RTR", RXE, modify(uverbs.QPAttr{State: uverbs.QPStateRTR}, uverbs.QPAttrState), syscall.EINVAL},
	{"RESET to INIT without a port", RXE, modify(uverbs.QPAttr{State: uverbs.QPStateInit}, uverbs.QPAttrState), syscall.EINVAL},
	{"RESET to INIT on port 2", RXE, modify(uverbs.QPAttr{State: uverbs.QPStateInit, Port: 2},
		uverbs.QPAttrState|uverbs.QPAttrPort|uverbs.QPAttrPKeyIndex|uverbs.QPAttrAccess), syscall.EINVAL},
	{"to RTS by hand", SIW, modify(uverbs.QPAttr{State: uverbs.QPStateRTS}, uverbs.QPAttrState), syscall.EINVAL},
	{"to RTR by hand, which means nothing", SIW, modify(uverbs.QPAttr{State: uverbs.QPStateRTR}, uverbs.QPAttrState), nil},
	{"ERR to ERR", Both, fromErr(uverbs.QPStateErr), nil},
	{"ERR to SQD", RXE, fromErr(uverbs.QPStateSQD), syscall.EINVAL},
	{"ERR to INIT", RXE, fromErr(uverbs.QPStateInit), syscall.EINVAL},
	{"ERR to RTS", RXE, fromErr(uverbs.QPStateRTS), syscall.EINVAL},
	{"ERR to SQD, which means nothing", SIW, fromErr(uverbs.QPStateSQD), nil},
	{"ERR to RTS, which means nothing", SIW, fromErr(uverbs.QPStateRTS), nil},
	{"send in RESET", RXE, func(e *Env) error { return e.send(e.qp(uverbs.QPTypeRC), e.one()) }, syscall.EINVAL},
	{"send unconnected", SIW, func(e *Env) error { return e.send(e.qp(uverbs.QPTypeRC), e.one()) }, syscall.ENOTCONN},
	{"receive in RESET", RXE, func(e *Env) error {
		return failed(e.qp(uverbs.QPTypeRC).PostRecv([]uverbs.RecvWR{{}}))
	}, syscall.EINVAL},
}

func modify(a uverbs.QPAttr, mask uverbs.QPAttrMask) func(e *Env) error {
	return func(e *Env) error { return e.qp(uverbs.QPTypeRC).Modify(&a, mask) }
}

// fromErr moves a queue pair that is in ERR.
func fromErr(to uverbs.QPState) func(e *Env) error {
	return func(e *Env) error {
		qp := e.ready()
		if err := qp.Modify(&uverbs.QPAttr{State: uverbs.QPStateErr}, uverbs.QPAttrState); err != nil {
			e.t.Fatal(err)
		}
		return qp.Modify(&uverbs.QPAttr{State: to}, uverbs.QPAttrState)
	}
}

func (e *Env) one() uverbs.SendWR {
	return uverbs.SendWR{Opcode: uverbs.OpSend, SGL: []uverbs.SGE{e.MR.SGE(0, 8)}}
}

func (e *Env) send(qp *uverbs.QP, wr uverbs.SendWR) error {
	return failed(qp.PostSend([]uverbs.SendWR{wr}))
}

// ready makes a queue pair that takes receives.
func (e *Env) ready() *uverbs.QP {
	e.t.Helper()
	qp := e.qp(uverbs.QPTypeRC)
	if e.on == RXE {
		if err := qp.Init(&uverbs.QPAttr{}); err != nil {
			e.t.Fatal(err)
		}
	}
	return qp
}

var requests = []Refusal{
	{"receive of too many SGEs", Both, func(e *Env) error {
		qp := e.ready()
		sgl := make([]uverbs.SGE, qp.Cap().MaxRecvSGE+1)
		return failed(qp.PostRecv([]uverbs.RecvWR{{SGL: sgl}}))
	}, uverbs.ErrInvalidWR},
	{"more receives than there is room for", Both, func(e *Env) error {
		qp := e.ready()
		return failed(qp.PostRecv(make([]uverbs.RecvWR, qp.Cap().MaxRecvWR+1)))
	}, uverbs.ErrQueueFull},
}

var addresses = []Refusal{
	{"AH", SIW, ah(func(*uverbs.AHAttr) {}), uverbs.ErrNotSupported},
	{"AH of port 2", RXE, ah(func(a *uverbs.AHAttr) { a.Port = 2 }), syscall.EINVAL},
	{"AH without a global address", RXE, ah(func(a *uverbs.AHAttr) { a.Global = false }), syscall.EINVAL},
	{"AH with a GID that is not there", RXE, ah(func(a *uverbs.AHAttr) { a.SGIDIndex = 200 }), syscall.ENODATA},
	{"group of an RC QP", RXE, func(e *Env) error {
		return e.qp(uverbs.QPTypeRC).AttachMcast(uverbs.GID{10: 0xff, 11: 0xff, 12: 239, 15: 1}, 0)
	}, syscall.EINVAL},
	{"group that is none", RXE, func(e *Env) error {
		return e.qp(uverbs.QPTypeUD).AttachMcast(uverbs.GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}, 0)
	}, syscall.EINVAL},
	{"left without having joined", RXE, func(e *Env) error {
		return e.qp(uverbs.QPTypeUD).DetachMcast(uverbs.GID{10: 0xff, 11: 0xff, 12: 239, 15: 1}, 0)
	}, syscall.EINVAL},
}

func ah(change func(*uverbs.AHAttr)) func(e *Env) error {
	return func(e *Env) error {
		a := &uverbs.AHAttr{Port: 1, Global: true}
		if gids, err := e.Dev.GIDTable(); err == nil && len(gids) > 0 {
			a.DGID, a.SGIDIndex = gids[0].GID, gids[0].Index
		}
		change(a)
		return made[*uverbs.AH](e)(e.PD.CreateAH(a))
	}
}
