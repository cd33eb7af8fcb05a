package oob

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

const (
	srdMessages = 20 // each way, of each operation
	srdSize     = 100
)

// srdEnd is an end whose memory has four areas: the target of the peer's WRITEs, the source of SENDs and of the peer's READs,
// the destination of READs, and the receive buffers.
type srdEnd struct {
	*Conn
	end int
	mr  *uverbs.MR
}

const (
	areaWritten = iota * srdMessages
	areaOut
	areaRead
	areaReceived // one for each receive, of which writes take some
	areas        = areaReceived + 2*srdMessages
)

// message returns the message at a place.
func (e *srdEnd) message(at int) []byte { return e.mr.Bytes()[at*srdSize:][:srdSize] }

// pattern is what an end has in its message of a number.
func pattern(end, i int) []byte { return bytes.Repeat([]byte{byte(100*end + i)}, srdSize) }

// srdConfig is the configuration of an end that has announced its memory, and posted all receives.
func (w *world) srdConfig(end int, e *srdEnd) *Config {
	return &Config{PD: w.pds[end], QP: uverbs.QPOptions{Type: verbs.QPTypeSRD}, Timeout: time.Minute, Prepare: func(c *Conn) error {
		mr, err := c.PD().AllocMR(areas*srdSize, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead, nil)
		if err != nil {
			return err
		}
		c.Own(mr)
		e.end, e.mr = end, mr
		for i := range srdMessages {
			copy(e.message(areaOut+i), pattern(end, i))
		}
		c.SetPrivateData(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, mr.Addr()), mr.RKey()))
		wrs := make([]verbs.RecvWR, 2*srdMessages)
		for i := range wrs {
			wrs[i] = verbs.RecvWR{WRID: uint64(i), SGL: []verbs.SGE{mr.SGE((areaReceived+i)*srdSize, srdSize)}}
		}
		_, err = c.QP().PostRecv(wrs)
		return err
	}}
}

// request returns a work request for the peer, with the message and the memory of a number.
func (e *srdEnd) request(op verbs.Opcode, i int) verbs.SendWR {
	to, own, theirs := e.Peer(), areaOut+i, areaWritten+i
	if op == verbs.OpRDMARead {
		own, theirs = areaRead+i, areaOut+i
	}
	return verbs.SendWR{WRID: uint64(i), Opcode: op, Flags: verbs.SendSignaled, Imm: uint32(i), AH: to.AH, RemoteQPN: to.QPN, RemoteQKey: to.QKey,
		RemoteAddr: binary.BigEndian.Uint64(e.PrivateData()) + uint64(theirs*srdSize), RKey: binary.BigEndian.Uint32(e.PrivateData()[8:]),
		SGL: []verbs.SGE{e.mr.SGE(own*srdSize, srdSize)}}
}

// all carries out an operation with each number, and waits for the completions, which come in any order.
func (e *srdEnd) all(ctx context.Context, op verbs.Opcode) error {
	for i := range srdMessages {
		if _, err := e.QP().PostSend([]verbs.SendWR{e.request(op, i)}); err != nil {
			return err
		}
	}
	return e.each(ctx, e.SendCQ(), srdMessages, func(wc *verbs.WC) (n, at int) {
		if n = int(wc.WRID); op == verbs.OpRDMARead {
			return n, areaRead + n
		}
		return n, -1
	})
}

// each waits for a completion of each number below most. The number belongs to a message of the peer, unless its place is
// negative.
func (e *srdEnd) each(ctx context.Context, cq *uverbs.CQ, most int, number func(*verbs.WC) (n, at int)) error {
	seen := make(map[int]bool)
	var wcs [1]verbs.WC
	for len(seen) < most {
		if _, err := cq.Wait(ctx, wcs[:]); err != nil {
			return err
		}
		n, at := number(&wcs[0])
		if err := wcs[0].Err(); err != nil || seen[n] || n >= most {
			return fmt.Errorf("%d, %+v: %w", n, wcs[0], err)
		}
		if at >= 0 && !bytes.Equal(e.message(at), pattern(1-e.end, n%srdMessages)) {
			return fmt.Errorf("%+v: %x", wcs[0], e.message(at))
		}
		seen[n] = true
	}
	return nil
}

// run writes, sends and reads, while the peer does the same.
func (e *srdEnd) run(ctx context.Context) error {
	for _, op := range []verbs.Opcode{verbs.OpRDMAWriteImm, verbs.OpSendImm, verbs.OpRDMARead} {
		if err := e.all(ctx, op); err != nil {
			return fmt.Errorf("%v: %w", op, err)
		}
	}
	return e.each(ctx, e.RecvCQ(), 2*srdMessages, func(wc *verbs.WC) (n, at int) {
		if n = int(wc.Imm); wc.Opcode == verbs.WCRecvRDMAWithImm {
			return n, areaWritten + n
		}
		return srdMessages + n, areaReceived + int(wc.WRID)
	})
}

// TestSRD checks that both ends write, send and read as soon as they may, which takes an address
// handle at both. Messages and completions come in the order of the seed.
func TestSRD(t *testing.T) {
	for seed := range uint64(5) {
		for _, halves := range []bool{false, true} {
			w := newWorldOf(t, &rdmatest.Options{Seed: seed}, devices["efa"])
			w.fabric.SetReordering(0.5)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var a, b srdEnd
			near, far := net.Pipe()
			var both sync.WaitGroup
			begin := func(e *srdEnd, connect func() (*Conn, error)) {
				both.Go(func() {
					var err error
					if e.Conn, err = connect(); err == nil {
						closeLater(t, e.Conn)
						err = e.run(ctx)
					}
					if err != nil {
						t.Errorf("seed %d: %v: %v", seed, e.Conn, err)
						cancel()
					}
				})
			}
			if halves {
				a.Conn, b.Conn = w.halves(w.srdConfig(0, &a), w.srdConfig(1, &b))
				for _, e := range []*srdEnd{&a, &b} {
					begin(e, func() (*Conn, error) { return e.Conn, nil })
				}
			} else {
				begin(&a, func() (*Conn, error) { return Dial(ctx, near, w.srdConfig(0, &a)) })
				begin(&b, func() (*Conn, error) { return Accept(ctx, far, w.srdConfig(1, &b)) })
			}
			both.Wait()
			if t.Failed() {
				return
			}
			if a.InitiatorDepth() != 0 || a.QP().Cap().MaxInline != efaInline {
				t.Errorf("%d, %+v", a.InitiatorDepth(), a.QP().Cap())
			}
		}
	}
}

// TestSRDFails checks that a work request that fails is no end.
func TestSRDFails(t *testing.T) {
	w := newWorld(t, devices["efa"])
	a, b := w.mustConnect(verbs.QPTypeSRD)
	w.fabric.Host(0).Device(0).FailSend(0, verbs.StatusRemAccessErr)
	to := a.Peer()
	wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{regionOf(a).SGE(0, 1)}, AH: to.AH, RemoteQPN: to.QPN, RemoteQKey: to.QKey}
	if _, err := a.QP().PostSend([]verbs.SendWR{wr}); err != nil {
		t.Fatal(err)
	}
	var wcs [1]verbs.WC
	if _, err := a.SendCQ().Wait(t.Context(), wcs[:]); err != nil || wcs[0].Status != verbs.StatusRemAccessErr {
		t.Error(err, wcs)
	}
	if err := a.Err(); err != nil {
		t.Error(err)
	}
	checkConnected(t, a, b)
}

// TestSRDPeers checks that one queue pair distinguishes several peers by their QP numbers. Closing one Conn does not affect
// the others, although they share an address handle of the device.
func TestSRDPeers(t *testing.T) {
	w := newWorld(t, devices["efa"])
	a, b := w.mustConnect(verbs.QPTypeSRD)
	c, d := w.mustConnect(verbs.QPTypeSRD)
	if a.Peer().QPN == c.Peer().QPN || a.Peer().QKey == c.Peer().QKey {
		t.Errorf("%+v, %+v", a.Peer(), c.Peer())
	}
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Error(err)
	}
	checkConnected(t, c, d)
	if err := c.Disconnect(); err != nil {
		t.Error(err)
	}
	<-d.Done()
	if err := d.Err(); !errors.Is(err, rdmacm.ErrDisconnected) {
		t.Error(err)
	}
}

// TestEFALID checks that what a peer says of LIDs means nothing on EFA.
func TestEFALID(t *testing.T) {
	w := newWorld(t, devices["efa"])
	half, err := Offer(w.config(0, verbs.QPTypeSRD))
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, half)
	offer, err := parse(half.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	offer.endpoint.LID = 5
	b, _, err := Answer(t.Context(), offer.bytes(), w.config(1, verbs.QPTypeSRD))
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, b)
}

// TestNoRC checks that EFA has no RC, and the error names the device's types.
func TestNoRC(t *testing.T) {
	w := newWorld(t, devices["efa"])
	_, err := Offer(w.config(0, 0))
	if !errors.Is(err, verbs.ErrNotSupported) || !bytes.Contains([]byte(fmt.Sprint(err)), []byte("SRD and UD")) {
		t.Error(err)
	}
}
