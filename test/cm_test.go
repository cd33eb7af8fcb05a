//go:build vm

package test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"

	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// cmLink puts an RDMA link of that type on a dummy interface with an address of
// each family.
func cmLink(t *testing.T, typ string) {
	t.Helper()
	if typ == "siw" {
		needSiw(t)
	}
	dummy(t, "cmdummy", "10.78.0.1/24", "fd78::1/64", "fe80::78/64")
	link(t, "cmlink", typ, "cmdummy")
}

const cmMessage = 64

// cmPeer is one side of a ping: memory, with a receive posted before the peer
// may send.
type cmPeer struct{ mr *uverbs.MR }

func (p *cmPeer) prepare(c *rdmacm.Conn) (err error) {
	if p.mr, err = c.PD().AllocMR(2*cmMessage, verbs.AccessLocalWrite, nil); err != nil {
		return err
	}
	c.Own(p.mr)
	_, err = c.QP().PostRecv([]verbs.RecvWR{{WRID: 1, SGL: []verbs.SGE{p.mr.SGE(0, cmMessage)}}})
	return err
}

func (p *cmPeer) send(ctx context.Context, c *rdmacm.Conn, text string) error {
	n := copy(p.mr.Bytes()[cmMessage:], text)
	wr := verbs.SendWR{WRID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{p.mr.SGE(cmMessage, n)}}
	if _, err := c.QP().PostSend([]verbs.SendWR{wr}); err != nil {
		return err
	}
	_, err := cmWait(ctx, c.SendCQ())
	return err
}

func (p *cmPeer) recv(ctx context.Context, c *rdmacm.Conn) (string, error) {
	wc, err := cmWait(ctx, c.RecvCQ())
	if err != nil {
		return "", err
	}
	return string(p.mr.Bytes()[:wc.ByteLen]), nil
}

func cmWait(ctx context.Context, cq *uverbs.CQ) (verbs.WC, error) {
	var wcs [1]verbs.WC
	if _, err := cq.Wait(ctx, wcs[:]); err != nil {
		return wcs[0], err
	}
	return wcs[0], wcs[0].Err()
}

// cmEcho accepts connections until the listener is closed, and answers each
// with what it received.
func cmEcho(t *testing.T, l *rdmacm.Listener) *sync.WaitGroup {
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			r, err := l.Next(t.Context())
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					t.Error("next:", err)
				}
				return
			}
			wg.Add(1)
			go func() {
				defer wg.Done()
				if err := cmAnswer(r); err != nil {
					t.Error("server:", err)
				}
			}()
		}
	}()
	return &wg
}

func cmAnswer(r *rdmacm.Request) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var p cmPeer
	c, err := r.Accept(ctx, &rdmacm.Config{Prepare: p.prepare, PrivateData: []byte("welcome")})
	if err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	defer c.Close()
	text, err := p.recv(ctx, c)
	if err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	// Over RoCE the client may have the answer, and close, before its kernel has
	// acknowledged it. The client reports that it has.
	if err := p.send(ctx, c, "re: "+text); err != nil && !errors.Is(err, verbs.StatusWRFlushErr) {
		return fmt.Errorf("send: %w", err)
	}
	select {
	case <-c.Done():
	case <-ctx.Done():
		return errors.New("the client did not disconnect")
	}
	if err := c.Err(); !errors.Is(err, rdmacm.ErrDisconnected) {
		return fmt.Errorf("end of connection: %w", err)
	}
	return c.Close()
}

func cmPing(ctx context.Context, addr, text string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var p cmPeer
	c, err := rdmacm.Dial(ctx, addr, &rdmacm.Config{Prepare: p.prepare, PrivateData: []byte(text)})
	if err != nil {
		return err
	}
	defer c.Close()
	if got := strings.TrimRight(string(c.PrivateData()), "\x00"); got != "welcome" {
		return fmt.Errorf("private data %q", got)
	}
	if err := p.send(ctx, c, text); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	answer, err := p.recv(ctx, c)
	if err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	if answer != "re: "+text {
		return fmt.Errorf("answer %q", answer)
	}
	return c.Close()
}

func TestCMPing(t *testing.T) {
	cmLink(t, "siw")
	for _, test := range fewElsewhere([]struct{ listen, host string }{
		{"[fe80::78%cmdummy]:0", "fe80::78%cmdummy"},
		{":0", "10.78.0.1"},
		{":0", "fd78::1"},
		{"10.78.0.1:0", "10.78.0.1"},
		{"[fd78::1]:0", "fd78::1"},
		{":0", "fe80::78%cmdummy"},
		{"0.0.0.0:0", "10.78.0.1"},
		{"[::]:0", "fd78::1"},
	}, 3) {
		t.Run(test.listen+" "+test.host, func(t *testing.T) {
			l, err := rdmacm.Listen(test.listen, nil)
			if err != nil {
				t.Fatal(err)
			}
			served := cmEcho(t, l)
			addr := netip.AddrPortFrom(netip.MustParseAddr(test.host), l.Addr().Port()).String()
			for range 3 {
				if err := cmPing(t.Context(), addr, "hello"); err != nil {
					t.Error(err)
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			served.Wait()
		})
	}
}

func TestCMNoLeak(t *testing.T) {
	cmLink(t, "siw")
	noLeak(t)
	l, err := rdmacm.Listen(":0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := cmEcho(t, l)
	addr := netip.AddrPortFrom(netip.MustParseAddr("10.78.0.1"), l.Addr().Port()).String()
	if err := cmPing(t.Context(), addr, "warm up"); err != nil {
		t.Fatal(err)
	}
	pings := 60
	if !onKernel("6.12") {
		pings = 15
	}
	for i := range pings {
		if err := cmPing(t.Context(), addr, fmt.Sprint("ping ", i)); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	served.Wait()
}

func TestCMReject(t *testing.T) {
	cmLink(t, "siw")
	l, err := rdmacm.Listen("10.78.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		r, err := l.Next(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		if got := strings.TrimRight(string(r.PrivateData), "\x00"); got != "let me in" {
			t.Errorf("private data %q", got)
		}
		if err := r.Reject([]byte("not today")); err != nil {
			t.Error(err)
		}
	}()
	_, err = rdmacm.DialAddrPort(t.Context(), l.Addr(), &rdmacm.Config{PrivateData: []byte("let me in")})
	var rejected *rdmacm.RejectedError
	if !errors.As(err, &rejected) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatal(err)
	}
	if got := strings.TrimRight(string(rejected.PrivateData), "\x00"); got != "not today" {
		t.Errorf("private data %q", got)
	}
	t.Log(err)
}

func TestCMErrors(t *testing.T) {
	cmLink(t, "siw")
	for _, test := range []struct {
		addr string
		want error
	}{
		{"10.78.0.1:9", syscall.ECONNREFUSED},
		{"192.0.2.1:9", syscall.ENETUNREACH},
		{"127.0.0.1:9", nil},
	} {
		_, err := rdmacm.Dial(t.Context(), test.addr, nil)
		t.Log(err)
		if err == nil || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.addr, err, test.want)
		}
	}
	if _, err := rdmacm.Listen("192.0.2.1:9", nil); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Error(err)
	}
	l, err := rdmacm.Listen("10.78.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = rdmacm.Listen(l.Addr().String(), nil)
	t.Log(err)
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Error(err)
	}
}

// A cancelled context ends each wait.
func TestCMCancel(t *testing.T) {
	cmLink(t, "siw")
	l, err := rdmacm.Listen("10.78.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cancelled(t, "next", "(*Listener).Next", func(ctx context.Context) error { _, err := l.Next(ctx); return err })
	cancelled(t, "accept", "(*Listener).Accept", func(ctx context.Context) error { _, err := l.Accept(ctx); return err })
	// Nobody answers the request.
	cancelled(t, "dial", "(*Conn).await", func(ctx context.Context) error { _, err := rdmacm.DialAddrPort(ctx, l.Addr(), nil); return err })
	// Nobody answers on the wire.
	cancelled(t, "dial silence", "(*ID).Connect", func(ctx context.Context) error { _, err := rdmacm.Dial(ctx, "10.78.0.99:1", nil); return err })
}
