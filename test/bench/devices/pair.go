package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// pair holds the requests of both ends of a connection.
type pair struct {
	client, server *side
	reads          []verbs.SendWR
}

// side is one end of a connection.
type side struct {
	c     *rdmacm.Conn
	mr    *uverbs.MR
	sends []verbs.SendWR
	recvs []verbs.RecvWR
	wcs   []verbs.WC
}

func prepare(e ends) (*pair, error) {
	client, err := newSide(e.dialled)
	if err != nil {
		return nil, err
	}
	server, err := newSide(e.accepted)
	if err != nil {
		return nil, err
	}
	p := &pair{client: client, server: server}
	for i := range list {
		p.reads = append(p.reads, verbs.SendWR{WRID: uint64(i), Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled,
			SGL: []verbs.SGE{client.mr.SGE(i*long, long)}, RemoteAddr: server.mr.Addr() + uint64(i*long), RKey: server.mr.RKey()})
	}
	return p, nil
}

func newSide(c *rdmacm.Conn) (*side, error) {
	mr, err := c.PD().AllocMR(list*long, verbs.AccessLocalWrite|verbs.AccessRemoteRead, nil)
	if err != nil {
		return nil, err
	}
	c.Own(mr)
	e := &side{c: c, mr: mr, wcs: make([]verbs.WC, list)}
	for i := range list {
		e.sends = append(e.sends, verbs.SendWR{WRID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{mr.SGE(i*short, short)}})
		e.recvs = append(e.recvs, verbs.RecvWR{WRID: uint64(i), SGL: []verbs.SGE{mr.SGE((list+i)*short, short)}})
	}
	return e, nil
}

// take polls until n requests have completed.
func (e *side) take(cq *uverbs.CQ, n int) error {
	for n > 0 {
		got, err := cq.Poll(e.wcs[:n])
		if err != nil {
			return err
		}
		for i := range e.wcs[:got] {
			if err := e.wcs[i].Err(); err != nil {
				return err
			}
		}
		n -= got
	}
	return nil
}

// read reads all of the server's memory.
func (p *pair) read() error {
	if _, err := p.client.c.QP().PostSend(p.reads); err != nil {
		return err
	}
	return p.client.take(p.client.c.SendCQ(), list)
}

// send sends a list of messages to the server.
func (p *pair) send() error { return p.client.sendTo(p.server, list) }

func (e *side) sendTo(to *side, n int) error {
	if _, err := to.c.QP().PostRecv(to.recvs[:n]); err != nil {
		return err
	}
	if _, err := e.c.QP().PostSend(e.sends[:n]); err != nil {
		return err
	}
	return errors.Join(e.take(e.c.SendCQ(), n), to.take(to.c.RecvCQ(), n))
}

// pingPong sends messages to the server and back, half a list of each.
func (p *pair) pingPong() error {
	for range list / 2 {
		if err := errors.Join(p.client.sendTo(p.server, 1), p.server.sendTo(p.client, 1)); err != nil {
			return err
		}
	}
	return nil
}

// pingPongWaiting is pingPong between two goroutines, which wait for events.
func (p *pair) pingPongWaiting() error {
	for _, e := range []*side{p.client, p.server} {
		if _, err := e.c.QP().PostRecv(e.recvs[:list/2]); err != nil {
			return err
		}
	}
	done := make(chan error, 1)
	go func() {
		for range list / 2 {
			if err := errors.Join(p.server.wait(p.server.c.RecvCQ()), p.server.sendAndWait()); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for range list / 2 {
		if err := errors.Join(p.client.sendAndWait(), p.client.wait(p.client.c.RecvCQ())); err != nil {
			return err
		}
	}
	return <-done
}

func (e *side) sendAndWait() error {
	if _, err := e.c.QP().PostSend(e.sends[:1]); err != nil {
		return err
	}
	return e.wait(e.c.SendCQ())
}

// wait waits for one completion.
func (e *side) wait(cq *uverbs.CQ) error {
	n, err := cq.Wait(context.Background(), e.wcs[:1])
	if err == nil && n != 1 {
		err = fmt.Errorf("%d completions", n)
	}
	return errors.Join(err, e.wcs[0].Err())
}
