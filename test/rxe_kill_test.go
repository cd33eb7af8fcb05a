//go:build vm

package test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxePeerKilled kills a process in the middle of a transfer between QPs that
// were connected by hand. The other one gets no notice and finds out by sending;
// then all its work requests complete, and nothing of the dead process is left.
func TestRxePeerKilled(t *testing.T) {
	for _, who := range []string{"it", "we", "both"} {
		t.Run(who+" write", func(t *testing.T) {
			rxeFabric(t)
			noLeak(t)
			d := openRxe(t)
			q := must(newTalker(d.Device))(t)
			closeLater(t, q)
			p := start(t, child("rxe victim", who, q.String()))
			if err := q.connect(p.line(t)); err != nil {
				t.Fatal(err)
			}
			for i := range uint64(2) {
				if _, err := q.qp.PostRecv([]verbs.RecvWR{{WRID: i}}); err != nil {
					t.Fatal(err)
				}
			}
			p.line(t) // it is under way
			kill := func() { p.Process.Kill() }
			if who == "it" {
				kill()
				p.Wait()
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			status, err := q.write(ctx, kill)
			if err != nil || len(status) != cap(q.wcs) || status[0] != verbs.StatusRetryExcErr {
				t.Errorf("the writes ended with %v, %v", status, err)
			}
			for _, s := range status[1:] {
				if s != verbs.StatusWRFlushErr {
					t.Errorf("the writes ended with %v", status)
				}
			}
			for i := range uint64(2) {
				n, err := q.recvCQ.Wait(ctx, q.wcs[:1])
				if wc := q.wcs[0]; n != 1 || err != nil || wc.WRID != i || wc.Status != verbs.StatusWRFlushErr {
					t.Errorf("receive %d: %+v, %v", i, wc, err)
				}
			}
		})
	}
}

// rxeVictim is connected to by hand, and writes, or not, until it is killed.
func rxeVictim(args []string) error {
	d, err := uverbs.Open(rxeLink)
	if err != nil {
		return err
	}
	q, err := newTalker(d)
	if err != nil {
		return err
	}
	fmt.Println(q)
	if err := q.connect(args[1]); err != nil {
		return err
	}
	underWay := func() { fmt.Println("under way") }
	if args[0] != "we" {
		status, err := q.write(context.Background(), underWay)
		return fmt.Errorf("outlived its peer: %v, %w", status, err)
	}
	underWay()
	time.Sleep(2 * patience)
	return errors.New("was not killed")
}

// talkSize is that of a talker's write. It is done in much less time than the peer has
// for an acknowledgement, for rxe does not always survive that it sends again; see
// stream.
const talkSize = 64 << 10

// talker is an RC QP that two processes connect by hand.
type talker struct {
	pd             *uverbs.PD
	mr             *uverbs.MR
	channel        *uverbs.CompChannel
	sendCQ, recvCQ *uverbs.CQ
	qp             *uverbs.QP
	gid            *verbs.GIDEntry
	wcs            []verbs.WC
	addr           uint64 // of the peer's memory
	rkey           uint32
}

func newTalker(d *uverbs.Device) (q *talker, err error) {
	q = &talker{wcs: make([]verbs.WC, 8)}
	if q.gid, err = d.ChooseGID(1, nil); err != nil {
		return q, err
	}
	if q.pd, err = d.AllocPD(); err != nil {
		return q, err
	}
	if q.mr, err = q.pd.AllocMR(talkSize, allAccess, nil); err != nil {
		return q, err
	}
	if q.channel, err = d.CreateCompChannel(); err != nil {
		return q, err
	}
	for _, cq := range []**uverbs.CQ{&q.sendCQ, &q.recvCQ} {
		if *cq, err = d.CreateCQ(2*len(q.wcs), &uverbs.CQOptions{Channel: q.channel}); err != nil {
			return q, err
		}
	}
	q.qp, err = q.pd.CreateQP(&uverbs.QPOptions{SendCQ: q.sendCQ, RecvCQ: q.recvCQ,
		Cap: verbs.QPCap{MaxSendWR: uint32(len(q.wcs)), MaxRecvWR: 2, MaxSendSGE: 1, MaxRecvSGE: 1}})
	return q, err
}

func (q *talker) Close() error {
	return errors.Join(q.qp.Close(), q.sendCQ.Close(), q.recvCQ.Close(), q.channel.Close(), q.mr.Close(), q.pd.Close())
}

// String encodes the address for the peer.
func (q *talker) String() string {
	return fmt.Sprintf("%d %d %d", q.qp.Num(), q.mr.Addr(), q.mr.RKey())
}

// connect takes half a second and a retry for the end of the peer: 7 retries would
// be without end, to rxe.
func (q *talker) connect(peer string) error {
	attr := &verbs.QPAttr{Access: allAccess, Timeout: 17, RetryCnt: 1,
		AH: verbs.AHAttr{Global: true, DGID: q.gid.GID, SGIDIndex: q.gid.Index, HopLimit: 1}}
	if _, err := fmt.Sscan(peer, &attr.DestQPN, &q.addr, &q.rkey); err != nil {
		return err
	}
	return errors.Join(q.qp.Init(attr), q.qp.Connect(attr))
}

// write writes to the peer's memory until a write fails, and prints the status of
// each failed write when all have completed. It prints a line once it is well under way.
func (q *talker) write(ctx context.Context, underWay func()) (failed []verbs.Status, err error) {
	wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: q.addr, RKey: q.rkey,
		SGL: []verbs.SGE{q.mr.SGE(0, q.mr.Len())}}
	done := 0
	for inFlight := 0; len(failed) == 0 || inFlight > 0; {
		for ; len(failed) == 0 && inFlight < len(q.wcs); inFlight++ {
			if _, err := q.qp.PostSend([]verbs.SendWR{wr}); err != nil {
				return failed, err
			}
		}
		n, err := q.sendCQ.Wait(ctx, q.wcs)
		if err != nil {
			return failed, err
		}
		for _, wc := range q.wcs[:n] {
			if wc.Status != verbs.StatusSuccess {
				failed = append(failed, wc.Status)
			}
		}
		inFlight -= n
		if done += n; done >= killAfter && done-n < killAfter {
			underWay()
		}
	}
	return failed, nil
}
