//go:build vm

package test

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeCredentialsChanged: write(2), by which doorbells and arming go, is closed
// to who changed credentials after opening the device. ioctl is not.
func TestRxeCredentialsChanged(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	p := start(t, child("rxe new user"))
	if got := p.line(t); got != "as before" {
		t.Error(got)
	}
	p.finish(t)
}

// rxeChangeUser reads and writes to itself, becomes another user, and goes on.
func rxeChangeUser([]string) error {
	d, err := uverbs.Open(rxeLink)
	if err != nil {
		return err
	}
	defer d.Close()
	q, err := newTalker(d)
	if err != nil {
		return err
	}
	defer q.Close()
	if err := q.connect(q.String()); err != nil {
		return err
	}
	if err := q.writeOnce(); err != nil {
		return err
	}
	if err := syscall.Setuid(65534); err != nil {
		return err
	}
	for range 2 {
		if err := q.writeOnce(); err != nil {
			return fmt.Errorf("as another user: %w", err)
		}
	}
	fmt.Println("as before")
	return nil
}

// writeOnce waits with an event, for which the CQ has to be armed.
func (q *talker) writeOnce() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: q.addr, RKey: q.rkey,
		SGL: []verbs.SGE{q.mr.SGE(0, q.mr.Len())}}
	if _, err := q.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		return err
	}
	if _, err := q.sendCQ.Wait(ctx, q.wcs[:1]); err != nil {
		return err
	}
	return q.wcs[0].Err()
}
