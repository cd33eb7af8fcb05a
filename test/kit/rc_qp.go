//go:build vm

package kit

import (
	"context"
	"errors"
	"fmt"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// writeSize is the size of an RCQP's write. The write takes much less time than the timeout of
// an acknowledgement, because rxe does not always survive retransmissions.
const writeSize = 64 << 10

// RCQP is an RC QP that two processes connect by hand.
type RCQP struct {
	own            *uverbs.Endpoint
	SendCQ, RecvCQ *uverbs.CQ
	MR             *uverbs.MR
	QP             *uverbs.QP
	gid            *verbs.GIDEntry
	Wcs            []verbs.WC
	Addr           uint64 // of the peer's memory
	Rkey           uint32
}

// NewRCQP creates the QP and its memory.
func NewRCQP(d *uverbs.Device) (q *RCQP, err error) {
	q = &RCQP{Wcs: make([]verbs.WC, 8)}
	if q.gid, err = d.ChooseGID(1, nil); err != nil {
		return q, err
	}
	if q.own, err = d.CreateEndpoint(&uverbs.EndpointOptions{SendCQEntries: 2 * len(q.Wcs), RecvCQEntries: 2 * len(q.Wcs)}); err != nil {
		return q, err
	}
	q.SendCQ, q.RecvCQ = q.own.SendCQ, q.own.RecvCQ
	if q.MR, err = q.own.PD.AllocMR(writeSize, AllAccess, nil); err != nil {
		return q, err
	}
	q.QP, err = q.own.CreateQP(&uverbs.QPOptions{Cap: verbs.QPCap{MaxSendWR: uint32(len(q.Wcs)), MaxRecvWR: 2, MaxSendSGE: 1, MaxRecvSGE: 1}})
	return q, err
}

// Close closes the QP and its memory.
func (q *RCQP) Close() error { return q.own.Close() }

// String encodes the address for the peer.
func (q *RCQP) String() string {
	return fmt.Sprintf("%d %d %d", q.QP.QPN(), q.MR.Addr(), q.MR.RKey())
}

// Connect connects the QP with half a second and one retry for the peer's acknowledgement: rxe
// takes 7 retries for an infinite number.
func (q *RCQP) Connect(peer string) error {
	attr := &verbs.QPAttr{Access: AllAccess, AckTimeout: 4096 << 17, RetryCnt: 1,
		AH: verbs.AHAttr{Global: true, DGID: q.gid.GID, SGIDIndex: q.gid.Index, HopLimit: 1}}
	if _, err := fmt.Sscan(peer, &attr.DestQPN, &q.Addr, &q.Rkey); err != nil {
		return err
	}
	return errors.Join(q.QP.Init(attr), q.QP.Connect(attr))
}

// WriteOnce writes and waits for a completion event, for which the CQ has to be armed.
func (q *RCQP) WriteOnce() error {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: q.Addr, RKey: q.Rkey,
		SGL: []verbs.SGE{q.MR.SGE(0, q.MR.Len())}}
	if _, err := q.QP.PostSend([]verbs.SendWR{wr}); err != nil {
		return err
	}
	if _, err := q.SendCQ.Wait(ctx, q.Wcs[:1]); err != nil {
		return err
	}
	return q.Wcs[0].Err()
}
