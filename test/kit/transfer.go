//go:build vm

package kit

import (
	"context"
	"fmt"
	"strconv"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

const (
	KillAfter = 20               // work requests
	KillSize  = 1 << 20          // bytes a work request
	Idle      = verbs.OpLocalInv // stands for no transfer
)

// TransferUntilKilled connects and transfers until it is killed.
func TransferUntilKilled(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	e := new(End)
	conn, err := (&rdmacm.Dialer{Config: *e.Config(Setup{Size: KillSize})}).Dial(ctx, args[0])
	if err != nil {
		return err
	}
	underWay := func() { fmt.Println("under way") }
	if op, _ := strconv.Atoi(args[1]); verbs.Opcode(op) != Idle {
		_, err = e.Stream(ctx, verbs.Opcode(op), underWay)
		return err
	}
	underWay()
	<-conn.Done()
	return conn.Err()
}

// Stream transfers to and from the peer's memory until a work request fails, and prints the
// statuses when all requests have completed. It prints a line once it is well under way.
func (e *End) Stream(ctx context.Context, op verbs.Opcode, underWay func()) (status verbs.Status, err error) {
	wr := e.AtPeer(verbs.SendWR{Opcode: op, Flags: verbs.SendSignaled, SGL: []verbs.SGE{e.MR.SGE(0, e.MR.Len())}})
	var wcs [8]verbs.WC
	done := 0
	for inFlight := 0; status == verbs.StatusSuccess || inFlight > 0; {
		for ; status == verbs.StatusSuccess && inFlight < len(wcs); inFlight++ {
			if _, err := e.QP().PostSend([]verbs.SendWR{wr}); err != nil {
				return status, err
			}
		}
		n, err := e.SendCQ().Wait(ctx, wcs[:])
		if err != nil {
			return status, err
		}
		for _, wc := range wcs[:n] {
			status = max(status, wc.Status)
		}
		inFlight -= n
		if done += n; done >= KillAfter && done-n < KillAfter {
			underWay()
		}
	}
	return status, nil
}
