package main

import (
	"context"
	"fmt"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// datagrams is a datagram queue pair with memory for its messages.
type datagrams struct {
	*rdmacm.Conn
	count, size int
	mr          *uverbs.MR // room for a received message with its header, then for one to send
}

// config returns a configuration whose Prepare posts the given number of receives.
func (d *datagrams) config(receives int) *rdmacm.Config {
	room := uint32(max(d.count, 1))
	return &rdmacm.Config{
		QP:      uverbs.QPOptions{Type: verbs.QPTypeUD, Cap: verbs.QPCap{MaxSendWR: room, MaxRecvWR: room, MaxSendSGE: 1, MaxRecvSGE: 1}},
		Prepare: func(c *rdmacm.Conn) error { return d.prepare(c, receives) },
	}
}

func (d *datagrams) prepare(c *rdmacm.Conn, receives int) (err error) {
	d.Conn = c
	if d.count == 0 {
		return nil
	}
	if err := d.fits(); err != nil {
		return err
	}
	if d.mr, err = c.PD().AllocMR(uverbs.GRHSize+2*d.size, verbs.AccessLocalWrite, nil); err != nil {
		return err
	}
	c.Own(d.mr)
	for range receives {
		if _, err := c.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{d.mr.SGE(0, uverbs.GRHSize+d.size)}}}); err != nil {
			return err
		}
	}
	return nil
}

// fits returns an error if messages are longer than a packet.
func (d *datagrams) fits() error {
	port, err := d.Device().QueryPort(d.DevicePort())
	if err != nil {
		return err
	}
	if most := port.ActiveMTU.Bytes(); d.size > most {
		return fmt.Errorf("a datagram on %s has at most %d bytes, -S says %d", d.Device().Info().Name, most, d.size)
	}
	return nil
}

// send sends count messages to a peer. Their immediate data is the number of the sending queue pair.
func (d *datagrams) send(ctx context.Context, to *rdmacm.Peer) error {
	for range d.count {
		wr := verbs.SendWR{Opcode: verbs.OpSendImm, Flags: verbs.SendSignaled, Imm: d.QP().QPN(),
			SGL: []verbs.SGE{d.mr.SGE(uverbs.GRHSize+d.size, d.size)}, AH: to.AH, RemoteQPN: to.QPN, RemoteQKey: to.QKey}
		if _, err := d.QP().PostSend([]verbs.SendWR{wr}); err != nil {
			return err
		}
	}
	_, err := d.take(ctx, d.SendCQ())
	return err
}

// receive waits for count messages and returns the completion of the first.
func (d *datagrams) receive(ctx context.Context) (first verbs.WC, err error) {
	return d.take(ctx, d.RecvCQ())
}

func (d *datagrams) take(ctx context.Context, cq *uverbs.CQ) (first verbs.WC, err error) {
	var wcs [1]verbs.WC
	for i := range d.count {
		n, err := cq.Wait(ctx, wcs[:])
		if n == 0 {
			return first, err
		}
		if err := wcs[0].Err(); err != nil {
			return first, err
		}
		if i == 0 {
			first = wcs[0]
		}
	}
	return first, nil
}
