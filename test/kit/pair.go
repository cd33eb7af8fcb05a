//go:build vm

package kit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

const (
	AllAccess = verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite
	NoAccess  = verbs.Access(1 << 31) // asks setup for a region that only local reads may use
)

// Setup describes one end of a pair. The zero value will do.
type Setup struct {
	Access verbs.Access // to its memory; zero: AllAccess
	Size   int          // of its memory; zero: MemorySize
	Recvs  int          // receives of RecvSize posted before the connection stands, from the start of memory
	Cfg    rdmacm.Config
}

const (
	MemorySize = 64 << 10
	RecvSize   = 1 << 10
	SendFrom   = MemorySize / 2 // where tests send from, behind the receives
)

// End is one end of a connection, with memory.
type End struct {
	*rdmacm.Conn
	T  *testing.T
	MR *uverbs.MR
}

// ConnectAt connects two ends over the link that has an address.
func ConnectAt(t *testing.T, address string, client, server Setup) (*End, *End) {
	t.Helper()
	a, b := &End{T: t}, &End{T: t}
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	ln, err := rdmacm.Listen(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	accepted := make(chan error, 1)
	go func() {
		req, err := ln.Next(ctx)
		if err == nil {
			b.Conn, err = req.Accept(ctx, b.Config(server))
		}
		accepted <- err
	}()
	a.Conn, err = (&rdmacm.Dialer{Config: *a.Config(client)}).Dial(ctx, ln.Addr().String())
	if errAccept := <-accepted; err != nil || errAccept != nil {
		t.Fatalf("dial: %v, accept: %v", err, errAccept)
	}
	t.Cleanup(func() {
		for _, e := range []*End{a, b} {
			if err := e.Close(); err != nil && !errors.Is(err, net.ErrClosed) { // a test may close it
				t.Error(err)
			}
		}
	})
	return a, b
}

// Config allocates memory when the connection is made, and sends its address to the peer in
// the private data.
func (e *End) Config(s Setup) *rdmacm.Config {
	s.Cfg.Prepare = func(c *rdmacm.Conn) (err error) {
		e.Conn = c
		switch s.Access {
		case 0:
			s.Access = AllAccess
		case NoAccess:
			s.Access = 0
		}
		if s.Size == 0 {
			s.Size = MemorySize
		}
		if e.MR, err = c.PD().AllocMR(s.Size, s.Access, nil); err != nil {
			return err
		}
		c.Own(e.MR)
		about := binary.BigEndian.AppendUint64(nil, e.MR.Addr())
		c.SetPrivateData(binary.BigEndian.AppendUint32(about, e.MR.RKey()))
		for i := range s.Recvs {
			if _, err := c.QP().PostRecv([]verbs.RecvWR{e.Recv(i)}); err != nil {
				return err
			}
		}
		return nil
	}
	return &s.Cfg
}

// AtPeer returns wr with the address and key of the peer's memory.
func (e *End) AtPeer(wr verbs.SendWR) verbs.SendWR {
	about := e.PrivateData()
	wr.RemoteAddr, wr.RKey = binary.BigEndian.Uint64(about), binary.BigEndian.Uint32(about[8:])
	return wr
}

// Recv returns a receive with work request ID 1000+i into slot i.
func (e *End) Recv(i int) verbs.RecvWR {
	return verbs.RecvWR{WRID: uint64(1000 + i), SGL: []verbs.SGE{e.MR.SGE(i*RecvSize, RecvSize)}}
}

// Post posts sends and fails the test if any is refused.
func (e *End) Post(wrs ...verbs.SendWR) {
	e.T.Helper()
	if n, err := e.QP().PostSend(wrs); n != len(wrs) || err != nil {
		e.T.Fatalf("posted %d of %d sends: %v", n, len(wrs), err)
	}
}

// Next waits for one completion.
func (e *End) Next(cq *uverbs.CQ) verbs.WC {
	e.T.Helper()
	return next(e.T, cq)
}

// next waits for a completion.
func next(t *testing.T, cq *uverbs.CQ) verbs.WC {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	var wcs [1]verbs.WC
	if _, err := cq.Wait(ctx, wcs[:]); err != nil {
		t.Fatal(err)
	}
	return wcs[0]
}

// Sent waits for a send to complete as described: "7 SEND success".
func (e *End) Sent(want string) {
	e.T.Helper()
	if got := Brief(e.Next(e.SendCQ())); got != want {
		e.T.Errorf("send completion %q, want %q", got, want)
	}
}

// Got waits for a receive to complete as described: "1000 RECV success 5".
func (e *End) Got(want string) {
	e.T.Helper()
	if got := Brief(e.Next(e.RecvCQ())); got != want {
		e.T.Errorf("receive completion %q, want %q", got, want)
	}
}

// Ended waits for the end of the connection.
func (e *End) Ended() error {
	e.T.Helper()
	select {
	case <-e.Done():
		return e.Err()
	case <-time.After(Patience):
		e.T.Fatal("the connection did not end")
		return nil
	}
}

// Brief describes a completion in a few words.
func Brief(wc verbs.WC) string {
	s := fmt.Sprintf("%d %v %v", wc.WRID, wc.Opcode, wc.Status)
	if wc.Status == verbs.StatusSuccess && wc.Opcode == verbs.WCRecv {
		s += fmt.Sprintf(" %d", wc.ByteLen)
	}
	return s
}
