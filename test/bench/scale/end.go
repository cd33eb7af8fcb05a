//go:build linux

package main

import (
	"context"
	"errors"
	"net/netip"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// An end of a connection has a buffer of a page and a receive posted for it.
type end struct {
	conn *rdmacm.Conn
	mr   *uverbs.MR
}

const bufferSize = 4096

func (e *end) prepare(c *rdmacm.Conn) (err error) {
	if e.mr, err = c.PD().AllocMR(bufferSize, verbs.AccessLocalWrite, nil); err != nil {
		return err
	}
	c.Own(e.mr)
	e.conn = c
	return e.postReceive()
}

func (e *end) postReceive() error {
	_, err := e.conn.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{e.mr.SGE(0, bufferSize)}}})
	return err
}

// sendByte sends a byte and waits for the completion.
func (e *end) sendByte(ctx context.Context) error {
	wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{e.mr.SGE(0, 1)}}
	if _, err := e.conn.QP().PostSend([]verbs.SendWR{wr}); err != nil {
		return err
	}
	return take(ctx, e.conn.SendCQ())
}

// receive waits for one message.
func (e *end) receive(ctx context.Context) error { return take(ctx, e.conn.RecvCQ()) }

// take waits for one completion, which must be a success.
func take(ctx context.Context, cq *uverbs.CQ) error {
	var wcs [1]verbs.WC
	if _, err := cq.Wait(ctx, wcs[:]); err != nil {
		return err
	}
	if wcs[0].Status != verbs.StatusSuccess {
		return wcs[0].Status
	}
	return nil
}

// dial connects with a minimal Config, in a protection domain that connections share, as those of librdmacm do.
func dial(ctx context.Context, addr netip.AddrPort, pd *uverbs.PD) (*end, error) {
	e := new(end)
	_, err := (&rdmacm.Dialer{Config: rdmacm.Config{Prepare: e.prepare, PD: pd}}).Dial(ctx, addr.String())
	if err != nil {
		return nil, err
	}
	return e, nil
}

// sharedPD creates a protection domain on the device of a local address. free frees it.
func sharedPD(local netip.Addr) (pd *uverbs.PD, free func() error, err error) {
	dev, _, err := rdmacm.OpenDevice(local)
	if err != nil {
		return nil, nil, err
	}
	if pd, err = dev.AllocPD(); err != nil {
		return nil, nil, errors.Join(err, dev.Close())
	}
	return pd, func() error { return errors.Join(pd.Close(), dev.Close()) }, nil
}
