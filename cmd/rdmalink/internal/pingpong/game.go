package pingpong

import "github.com/goverbs/goverbs/verbs"

// Kinds of completions. As a set they are the ones that a QP still waits for.
const (
	recvID uint64 = 1 << iota
	sendID
)

// game is the course of the exchanges.
type game struct {
	*end
	*session
	wr             [1]verbs.SendWR
	recvs          []verbs.RecvWR // as many as are posted at most
	posted         int            // receives that the device has
	sent, received int
	pending        []uint64       // by QP: a send follows when both have completed
	index          map[uint32]int // of a QP, by its number
}

func (p *session) newGame(e *end) *game {
	g := &game{end: e, session: p,
		recvs: make([]verbs.RecvWR, p.rxDepth), pending: make([]uint64, len(e.qps)), index: make(map[uint32]int)}
	for i := range g.recvs {
		g.recvs[i] = verbs.RecvWR{WRID: recvID, SGL: []verbs.SGE{e.mr.SGE(0, e.mr.Len())}}
	}
	for i, qp := range e.qps {
		g.pending[i] = recvID
		g.index[qp.Num()] = i
	}
	wr := verbs.SendWR{WRID: sendID, Opcode: verbs.OpSend, Flags: verbs.SendSignaled}
	if int(e.qps[0].Cap().MaxInline) >= p.size {
		wr.Inline = g.message()
	} else {
		wr.SGL = []verbs.SGE{e.mr.SGE(p.kind.front, p.size)}
	}
	g.wr[0] = wr
	return g
}

func (g *game) message() []byte { return g.mr.Bytes()[g.kind.front:][:g.size] }

// refill posts receives up to the number of -r.
func (g *game) refill() (err error) {
	post := g.qps[0].PostRecv
	if g.srq != nil {
		post = g.srq.PostRecv
	}
	_, err = post(g.recvs[g.posted:])
	g.posted = len(g.recvs)
	return err
}

// meetPeer completes the address that messages go to.
func (g *game) meetPeer(remote []addr) {
	if g.ah != nil {
		g.wr[0].AH, g.wr[0].RemoteQPN, g.wr[0].RemoteQKey = g.ah, remote[0].qpn, qkey
	}
}

func (g *game) send(i int) error {
	g.pending[i] = sendID | recvID
	_, err := g.qps[i].PostSend(g.wr[:])
	return err
}
