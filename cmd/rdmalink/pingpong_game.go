package main

import "github.com/goverbs/goverbs/uverbs"

// What a completion was, and what a QP still waits for.
const (
	pingpongRecv uint64 = 1 << iota
	pingpongSend
)

// pingpongGame is the course of the exchanges.
type pingpongGame struct {
	*pingpongEnd
	*pingpong
	wr             [1]uverbs.SendWR
	recvs          []uverbs.RecvWR // as many as are posted at most
	posted         int             // receives that the device has
	sent, received int
	pending        []uint64       // by QP: a send follows when both have completed
	index          map[uint32]int // of a QP, by its number
}

func (p *pingpong) newGame(e *pingpongEnd) *pingpongGame {
	g := &pingpongGame{pingpongEnd: e, pingpong: p,
		recvs: make([]uverbs.RecvWR, p.rxDepth), pending: make([]uint64, len(e.qps)), index: make(map[uint32]int)}
	for i := range g.recvs {
		g.recvs[i] = uverbs.RecvWR{WRID: pingpongRecv, SGL: []uverbs.SGE{e.mr.SGE(0, e.mr.Len())}}
	}
	for i, qp := range e.qps {
		g.pending[i] = pingpongRecv
		g.index[qp.Num()] = i
	}
	wr := uverbs.SendWR{WRID: pingpongSend, Opcode: uverbs.OpSend, Flags: uverbs.SendSignaled}
	if int(e.qps[0].Cap().MaxInline) >= p.size {
		wr.Inline = g.message()
	} else {
		wr.SGL = []uverbs.SGE{e.mr.SGE(p.kind.front, p.size)}
	}
	g.wr[0] = wr
	return g
}

func (g *pingpongGame) message() []byte { return g.mr.Bytes()[g.kind.front:][:g.size] }

// refill posts receives up to the number of -r.
func (g *pingpongGame) refill() (err error) {
	post := g.qps[0].PostRecv
	if g.srq != nil {
		post = g.srq.PostRecv
	}
	_, err = post(g.recvs[g.posted:])
	g.posted = len(g.recvs)
	return err
}

// meetPeer completes the address that messages go to.
func (g *pingpongGame) meetPeer(remote []pingpongAddr) {
	if g.ah != nil {
		g.wr[0].AH, g.wr[0].RemoteQPN, g.wr[0].RemoteQKey = g.ah, remote[0].qpn, pingpongQKey
	}
}

func (g *pingpongGame) send(i int) error {
	g.pending[i] = pingpongSend | pingpongRecv
	_, err := g.qps[i].PostSend(g.wr[:])
	return err
}
