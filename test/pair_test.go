//go:build vm

package test

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

const (
	allAccess = verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite
	noAccess  = verbs.Access(1 << 31) // asks setup for a region that only local reads may use
)

// setup describes one end of a pair. The zero value will do.
type setup struct {
	access verbs.Access // to its memory; zero: allAccess
	size   int          // of its memory; zero: memorySize
	recvs  int          // receives of recvSize posted before the connection stands, from the start of memory
	cfg    rdmacm.Config
}

const (
	memorySize = 64 << 10
	recvSize   = 1 << 10
	sendFrom   = memorySize / 2 // where tests send from, behind the receives
)

// end is one end of a connection, with memory.
type end struct {
	*rdmacm.Conn
	t  *testing.T
	mr *uverbs.MR
}

// connect makes two connected ends in this process, closed when the test ends.
func connect(t *testing.T, client, server setup) (*end, *end) {
	t.Helper()
	fabric(t)
	return connectAt(t, dummyIPv4+":0", client, server)
}

// connectAt does so at an address of any link.
func connectAt(t *testing.T, address string, client, server setup) (*end, *end) {
	t.Helper()
	a, b := &end{t: t}, &end{t: t}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ln, err := rdmacm.Listen(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	accepted := make(chan error, 1)
	go func() {
		req, err := ln.Next(ctx)
		if err == nil {
			b.Conn, err = req.Accept(ctx, b.config(server))
		}
		accepted <- err
	}()
	a.Conn, err = rdmacm.DialAddrPort(ctx, ln.Addr(), a.config(client))
	if errAccept := <-accepted; err != nil || errAccept != nil {
		t.Fatalf("dial: %v, accept: %v", err, errAccept)
	}
	t.Cleanup(func() {
		for _, e := range []*end{a, b} {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return a, b
}

// config allocates memory when the connection is made, and sends its address to the peer in
// the private data.
func (e *end) config(s setup) *rdmacm.Config {
	s.cfg.Prepare = func(c *rdmacm.Conn) (err error) {
		e.Conn = c
		switch s.access {
		case 0:
			s.access = allAccess
		case noAccess:
			s.access = 0
		}
		if s.size == 0 {
			s.size = memorySize
		}
		if e.mr, err = c.PD().AllocMR(s.size, s.access, nil); err != nil {
			return err
		}
		c.Own(e.mr)
		about := binary.BigEndian.AppendUint64(nil, e.mr.Addr())
		c.SetPrivateData(binary.BigEndian.AppendUint32(about, e.mr.RKey()))
		for i := range s.recvs {
			if _, err := c.QP().PostRecv([]verbs.RecvWR{e.recv(i)}); err != nil {
				return err
			}
		}
		return nil
	}
	return &s.cfg
}

// peer makes wr work on the start of the peer's memory.
func (e *end) peer(wr verbs.SendWR) verbs.SendWR {
	about := e.PrivateData()
	wr.RemoteAddr, wr.RKey = binary.BigEndian.Uint64(about), binary.BigEndian.Uint32(about[8:])
	return wr
}

// recv is the receive with work request ID 1000+i into slot i.
func (e *end) recv(i int) verbs.RecvWR {
	return verbs.RecvWR{WRID: uint64(1000 + i), SGL: []verbs.SGE{e.mr.SGE(i*recvSize, recvSize)}}
}

// post queues sends, all of which have to be taken.
func (e *end) post(wrs ...verbs.SendWR) {
	e.t.Helper()
	if n, err := e.QP().PostSend(wrs); n != len(wrs) || err != nil {
		e.t.Fatalf("posted %d of %d sends: %v", n, len(wrs), err)
	}
}

// postRecv queues a receive, which has to be taken.
func (e *end) postRecv(wr verbs.RecvWR) {
	e.t.Helper()
	if _, err := e.QP().PostRecv([]verbs.RecvWR{wr}); err != nil {
		e.t.Fatal(err)
	}
}

// next waits for one completion.
func (e *end) next(cq *uverbs.CQ) verbs.WC {
	e.t.Helper()
	return next(e.t, cq)
}

func next(t *testing.T, cq *uverbs.CQ) verbs.WC {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var wcs [1]verbs.WC
	if _, err := cq.Wait(ctx, wcs[:]); err != nil {
		t.Fatal(err)
	}
	return wcs[0]
}

// sent waits for a send to complete as described: "7 SEND success".
func (e *end) sent(want string) {
	e.t.Helper()
	if got := brief(e.next(e.SendCQ())); got != want {
		e.t.Errorf("send completion %q, want %q", got, want)
	}
}

// got waits for a receive to complete as described: "1000 RECV success 5".
func (e *end) got(want string) {
	e.t.Helper()
	if got := brief(e.next(e.RecvCQ())); got != want {
		e.t.Errorf("receive completion %q, want %q", got, want)
	}
}

// ended waits for the connection to be over.
func (e *end) ended() error {
	e.t.Helper()
	select {
	case <-e.Done():
		return e.Err()
	case <-time.After(patience):
		e.t.Fatal("the connection did not end")
		return nil
	}
}

// brief describes a completion in short.
func brief(wc verbs.WC) string {
	s := fmt.Sprintf("%d %v %v", wc.WRID, wc.Opcode, wc.Status)
	if wc.Status == verbs.StatusSuccess && wc.Opcode == verbs.WCRecv {
		s += fmt.Sprintf(" %d", wc.ByteLen)
	}
	return s
}
