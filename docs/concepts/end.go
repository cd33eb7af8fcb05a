package main

import (
	"context"
	"net"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

var background = context.Background()

// end is one end of a connection: a queue pair, its CQs and its protection domain.
type end struct {
	lab    *lab
	dev    *uverbs.Device
	pd     *uverbs.PD
	qp     *uverbs.QP
	sendCQ *uverbs.CQ
	recvCQ *uverbs.CQ
	conn   *rdmacm.Conn    // if the end is connected by rdma_cm
	gid    *verbs.GIDEntry // if the end is connected without it
}

// connect connects two queue pairs of type RC by rdma_cm, on the two hosts of a network.
// The server posts its receives in prepare, which may be nil.
func (l *lab) connect(kind rdmatest.Kind, cfg rdmacm.Config, prepare func(*end)) (client, server *end) {
	ln := must(rdmacm.Listen(context.Background(), net.JoinHostPort(l.host(kind, 1).addr, "0")))
	defer ln.Close()
	accepted := make(chan error, 1)
	go func() {
		request, err := ln.Next(background)
		if err != nil {
			accepted <- err
			return
		}
		c := cfg
		c.Prepare = func(conn *rdmacm.Conn) error {
			server = l.endOf(conn)
			if prepare != nil {
				prepare(server)
			}
			return nil
		}
		conn, err := request.Accept(background, &c)
		if err == nil {
			server.conn = conn
		}
		accepted <- err
	}()
	client = l.endOf(must((&rdmacm.Dialer{Config: cfg}).Dial(background, ln.Addr().String())))
	check(<-accepted)
	return client, server
}

func (l *lab) endOf(c *rdmacm.Conn) *end {
	l.closers = append(l.closers, c.Close)
	return &end{lab: l, dev: c.Device(), pd: c.PD(), qp: c.QP(), sendCQ: c.SendCQ(), recvCQ: c.RecvCQ(), conn: c}
}

// byHand creates two queue pairs of soft RoCE and connects them without rdma_cm. If change
// is not nil, it can modify the attributes of the first one's connection.
func (l *lab) byHand(typ verbs.QPType, change func(*verbs.QPAttr)) (a, b *end) {
	return l.byHandOn(rdmatest.RXE, typ, change)
}

func (l *lab) byHandOn(kind rdmatest.Kind, typ verbs.QPType, change func(*verbs.QPAttr)) (a, b *end) {
	a, b = l.inInit(l.host(kind, 0), typ), l.inInit(l.host(kind, 1), typ)
	attr := a.path(b)
	if change != nil {
		change(attr)
	}
	check(a.qp.Connect(attr))
	check(b.qp.Connect(b.path(a)))
	return a, b
}

// second connects two more queue pairs, in the protection domains of the first two.
func second(a, b *end) (*end, *end) {
	c, d := *a, *b
	for _, e := range []*end{&c, &d} {
		e.makeQP(e.qp.Type())
		check(e.qp.Init(&verbs.QPAttr{Access: everything}))
	}
	check(c.qp.Connect(c.path(&d)))
	check(d.qp.Connect(d.path(&c)))
	return &c, &d
}

// everything has all access rights that a peer can have.
const everything = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

// inInit creates a queue pair in INIT with room for four sends and four receives.
func (l *lab) inInit(at place, typ verbs.QPType) *end {
	e := l.inReset(at, typ)
	check(e.qp.Init(&verbs.QPAttr{Access: everything, QKey: qkey}))
	return e
}

// qkey is the Q_Key of all datagram queue pairs here.
const qkey = 0x1234

func (l *lab) inReset(at place, typ verbs.QPType) *end {
	e := &end{lab: l}
	e.dev = closing(l, must(uverbs.Open(at.device)))
	e.gid = must(e.dev.ChooseGID(1, nil))
	e.makeQP(typ)
	return e
}

// makeQP creates the end's CQs and its queue pair, in RESET, and its protection domain unless it has one.
func (e *end) makeQP(typ verbs.QPType) {
	own := closing(e.lab, must(e.dev.CreateEndpoint(&uverbs.EndpointOptions{PD: e.pd, SendCQEntries: 16, RecvCQEntries: 16})))
	e.pd, e.sendCQ, e.recvCQ = own.PD, own.SendCQ, own.RecvCQ
	e.qp = must(own.CreateQP(&uverbs.QPOptions{Type: typ, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 2, MaxRecvSGE: 1, MaxInline: 16}}))
}

// path returns the attributes that describe a peer to a queue pair.
func (e *end) path(to *end) *verbs.QPAttr {
	return &verbs.QPAttr{DestQPN: to.qp.QPN(),
		AH: verbs.AHAttr{Global: true, DGID: to.gid.GID, SGIDIndex: e.gid.Index, HopLimit: 64}}
}

// handle creates an address handle for a peer.
func (e *end) handle(to *end) *uverbs.AH {
	attr := e.path(to).AH
	attr.Port = 1
	return closing(e.lab, must(e.pd.CreateAH(&attr)))
}

// memory registers new memory.
func (e *end) memory(size int, access verbs.Access) *uverbs.MR {
	return closing(e.lab, must(e.pd.AllocMR(size, access, nil)))
}

// post posts a signaled send.
func (e *end) post(wr verbs.SendWR) {
	wr.Flags |= verbs.SendSignaled
	must(e.qp.PostSend([]verbs.SendWR{wr}))
}

// receive posts a receive.
func (e *end) receive(id uint64, sge verbs.SGE) {
	must(e.qp.PostRecv([]verbs.RecvWR{{WRID: id, SGL: []verbs.SGE{sge}}}))
}

// wait waits for the next completion of a CQ.
func wait(cq *uverbs.CQ) verbs.WC {
	var wc [1]verbs.WC
	must(cq.Wait(background, wc[:]))
	return wc[0]
}

// do posts a send, waits for its completion and returns the status.
func (e *end) do(wr verbs.SendWR) verbs.Status {
	e.post(wr)
	return wait(e.sendCQ).Status
}

// state returns the queue pair's state, as the kernel reports it.
func (e *end) state() verbs.QPState { return must(e.qp.Query()).State }
