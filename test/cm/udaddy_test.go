//go:build vm

package cm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// cmQKey is the Q_Key of all queue pairs of rdma_cm.
const cmQKey = 0x01234567

// udEnd is a datagram Conn with memory and receives.
type udEnd struct {
	*kit.End
	size int // size of a message
}

// udConfig returns the configuration of a datagram Conn with receives for recvs messages.
func (e *udEnd) udConfig(recvs int) *rdmacm.Config {
	return &rdmacm.Config{
		QP: uverbs.QPOptions{Type: verbs.QPTypeUD, Cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: uint32(max(recvs, 1)), MaxSendSGE: 1, MaxRecvSGE: 1}},
		Prepare: func(c *rdmacm.Conn) (err error) {
			e.Conn = c
			if e.MR, err = c.PD().AllocMR((recvs+1)*(uverbs.GRHSize+e.size), verbs.AccessLocalWrite, nil); err != nil {
				return err
			}
			c.Own(e.MR)
			for i := range recvs {
				if _, err := c.QP().PostRecv([]verbs.RecvWR{e.slot(i)}); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// slot returns the receive into slot i, which is also its WRID. The slot after the last one is for sends.
func (e *udEnd) slot(i int) verbs.RecvWR {
	return verbs.RecvWR{WRID: uint64(i), SGL: []verbs.SGE{e.MR.SGE(i*(uverbs.GRHSize+e.size), uverbs.GRHSize+e.size)}}
}

// send sends a message, with the number of its own QP as immediate data, as udaddy does.
func (e *udEnd) send(to *rdmacm.Peer, text string) {
	e.T.Helper()
	from := e.MR.Len() - e.size
	copy(e.MR.Bytes()[from:], text)
	e.Post(verbs.SendWR{Opcode: verbs.OpSendImm, Flags: verbs.SendSignaled, Imm: e.QP().QPN(),
		SGL: []verbs.SGE{e.MR.SGE(from, len(text))}, AH: to.AH, RemoteQPN: to.QPN, RemoteQKey: to.QKey})
	e.Sent("0 SEND success")
}

// receive waits for a message and returns it with its completion.
func (e *udEnd) receive() (string, verbs.WC) {
	e.T.Helper()
	wc := e.Next(e.RecvCQ())
	if err := wc.Err(); err != nil || wc.ByteLen < uverbs.GRHSize {
		e.T.Fatalf("%+v", wc)
	}
	return string(e.message(wc)[uverbs.GRHSize:]), wc
}

// message returns a received datagram, which begins with a header.
func (e *udEnd) message(wc verbs.WC) []byte {
	return e.MR.Bytes()[int(wc.WRID)*(uverbs.GRHSize+e.size):][:wc.ByteLen]
}

// sender returns the sender of a message as a peer, as udaddy does.
func (e *udEnd) sender(wc verbs.WC) *rdmacm.Peer {
	e.T.Helper()
	ah := kit.Must(e.PD().AHFromWC(1, &wc, e.message(wc)[:uverbs.GRHSize]))(e.T)
	e.Own(ah)
	return &rdmacm.Peer{AH: ah, QPN: wc.Imm, QKey: cmQKey}
}

// dialUD looks up a service at an address of the rxe fabric.
func dialUD(t *testing.T, address string, size, recvs int) (*udEnd, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	e := &udEnd{&kit.End{T: t}, size}
	_, err := (&rdmacm.Dialer{Config: *e.udConfig(recvs)}).Dial(ctx, address)
	if err == nil {
		kit.CloseLater(t, e)
	}
	return e, err
}

// openUD creates a datagram Conn at an address of the rxe fabric.
func openUD(t *testing.T, local string, size, recvs int) *udEnd {
	t.Helper()
	e := &udEnd{&kit.End{T: t}, size}
	kit.Must(rdmacm.OpenUD(addr(local), e.udConfig(recvs)))(t)
	kit.CloseLater(t, e)
	return e
}

// udaddied checks the output of udaddy.
func udaddied(t *testing.T, r *kit.Running) {
	t.Helper()
	if out := r.End(); out.Code != 0 || !strings.HasSuffix(out.Out, "data transfers complete\ntest complete\nreturn status 0\n") {
		t.Errorf("%+v", out)
	}
}

var udaddySizes = []struct{ count, size int }{{10, 100}, {1, 1}, {40, 1024}}

// TestUdaddyClient checks that one queue pair serves several of C's clients.
func TestUdaddyClient(t *testing.T) {
	kit.RxeFabric(t)
	for _, host := range []string{kit.RxeIPv4, kit.RxeIPv6} {
		for _, n := range udaddySizes {
			t.Run(fmt.Sprint(host, n), func(t *testing.T) {
				kit.NoLeak(t)
				const clients = 3
				e := openUD(t, host, n.size, clients*n.count)
				l := kit.Must((&rdmacm.ListenConfig{Config: rdmacm.Config{QP: uverbs.QPOptions{Type: verbs.QPTypeUD}}}).Listen(t.Context(), kit.HostPort(host, "7174")))(t)
				kit.CloseLater(t, l)
				client := kit.Launch(t, exec.Command("udaddy", "-s", host, "-c", fmt.Sprint(clients), "-C", fmt.Sprint(n.count), "-S", fmt.Sprint(n.size)))
				ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
				defer cancel()
				for range clients {
					r := kit.Must(l.Next(ctx))(t)
					if err := r.AcceptOn(e.Conn, []byte("hello")); err != nil {
						t.Fatal(err)
					}
				}
				way := make(map[uint32]*rdmacm.Peer)
				for range clients * n.count {
					text, wc := e.receive()
					if len(text) != n.size || wc.Imm != wc.SrcQPN {
						t.Errorf("%d bytes, %+v", len(text), wc)
					}
					if way[wc.SrcQPN] == nil {
						way[wc.SrcQPN] = e.sender(wc)
					}
				}
				if len(way) != clients {
					t.Error(len(way), "clients")
				}
				for _, peer := range way {
					for range n.count {
						e.send(peer, strings.Repeat("y", n.size))
					}
				}
				udaddied(t, client)
			})
		}
	}
}

// TestUDOneToOne checks that each client gets its own queue pair, whose receives are posted before the client knows its
// number. Data, private data and Q_Key arrive.
func TestUDOneToOne(t *testing.T) {
	kit.RxeFabric(t)
	for _, host := range []string{kit.RxeIPv4, kit.RxeIPv6} {
		t.Run(host, func(t *testing.T) {
			kit.NoLeak(t)
			ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
			defer cancel()
			l := kit.Must((&rdmacm.ListenConfig{Config: rdmacm.Config{QP: uverbs.QPOptions{Type: verbs.QPTypeUD}}}).Listen(t.Context(), kit.HostPort(host, "0")))(t)
			kit.CloseLater(t, l)
			server := &udEnd{&kit.End{T: t}, 1024}
			served := make(chan error, 1)
			go func() {
				r, err := l.Next(ctx)
				if err == nil && string(r.PrivateData) != "who are you?"+strings.Repeat("\x00", 180-12) {
					err = fmt.Errorf("private data %q", r.PrivateData)
				}
				if err == nil {
					cfg := server.udConfig(4)
					cfg.QP.Type, cfg.PrivateData = 0, []byte("me")
					_, err = r.Accept(ctx, cfg)
				}
				served <- err
			}()
			client := &udEnd{&kit.End{T: t}, 1024}
			cfg := client.udConfig(4)
			cfg.PrivateData = []byte("who are you?")
			kit.Must((&rdmacm.Dialer{Config: *cfg}).Dial(ctx, l.Addr().String()))(t)
			kit.CloseLater(t, client)
			kit.OK(t, <-served)
			kit.CloseLater(t, server)
			if got := string(client.PrivateData()); got != "me"+strings.Repeat("\x00", 136-2) {
				t.Errorf("answer %q", got)
			}
			if p := client.Peer(); p.QPN != server.QP().QPN() || p.QKey != cmQKey || server.Peer() != nil {
				t.Errorf("%+v", p)
			}
			for _, text := range []string{"hello", strings.Repeat("0123456789abcdef", 64)} {
				client.send(client.Peer(), text)
				got, wc := server.receive()
				if got != text {
					t.Errorf("%.20q arrived", got)
				}
				server.send(server.sender(wc), "re: "+text[:5])
				if got, _ := client.receive(); got != "re: "+text[:5] {
					t.Errorf("%.20q came back", got)
				}
			}
			if err := client.Disconnect(); err == nil {
				t.Error("disconnected what is not connected")
			}
		})
	}
}

// TestUDLookup checks that one queue pair finds several services.
func TestUDLookup(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	e := openUD(t, kit.RxeIPv4, 64, 0)
	server := openUD(t, kit.RxeIPv4, 64, 2)
	cfg := &rdmacm.Config{QP: uverbs.QPOptions{Type: verbs.QPTypeUD}}
	for i := range 2 {
		l := kit.Must((&rdmacm.ListenConfig{Config: *cfg}).Listen(t.Context(), kit.RxeIPv4+":0"))(t)
		kit.CloseLater(t, l)
		accepted := make(chan error, 1)
		go func() {
			r, err := l.Next(ctx)
			if err == nil {
				err = r.AcceptOn(server.Conn, []byte("it's me"))
			}
			accepted <- err
		}()
		peer := kit.Must(e.Lookup(ctx, l.Addr().String(), nil))(t)
		kit.OK(t, <-accepted)
		if got := strings.TrimRight(string(peer.PrivateData), "\x00"); got != "it's me" || peer.QPN != server.QP().QPN() {
			t.Errorf("%q, %+v", got, peer)
		}
		text := fmt.Sprint("message ", i)
		e.send(peer, text)
		if got, _ := server.receive(); got != text {
			t.Errorf("%q", got)
		}
		if err := peer.AH.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestUDRefused dials a service that nobody offers, a service whose program rejects, and C's udaddy, which rejects if
// the size of messages doesn't match.
func TestUDRefused(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	_, err := dialUD(t, kit.RxeIPv4+":9", 64, 0)
	var rejected *rdmacm.RejectedError
	if !errors.As(err, &rejected) || !errors.Is(err, syscall.ECONNREFUSED) || rejected.Reason != rdmacm.RejectInvalidServiceID {
		t.Error(err)
	}
	l := kit.Must((&rdmacm.ListenConfig{Config: rdmacm.Config{QP: uverbs.QPOptions{Type: verbs.QPTypeUD}}}).Listen(t.Context(), kit.RxeIPv4+":0"))(t)
	kit.CloseLater(t, l)
	refused := make(chan error, 1)
	go func() {
		r, err := l.Next(t.Context())
		if err == nil {
			err = r.Reject([]byte("no"))
		}
		refused <- err
	}()
	_, err = dialUD(t, l.Addr().String(), 64, 0)
	if !errors.As(err, &rejected) || rejected.Reason != rdmacm.RejectConsumer || string(rejected.PrivateData) != "no"+strings.Repeat("\x00", 134) {
		t.Error(err)
	}
	kit.OK(t, <-refused)

	kit.ServeCM(t, exec.Command("udaddy", "-S", "10000"), "7174")
	if _, err = dialUD(t, kit.RxeIPv4+":7174", 64, 0); !errors.As(err, &rejected) || rejected.Reason != rdmacm.RejectConsumer {
		t.Error(err)
	}
}

// TestUDOnSiw checks that iWARP supports neither datagrams nor multicast.
func TestUDOnSiw(t *testing.T) {
	kit.NeedSiw(t)
	kit.Fabric(t)
	kit.NoLeak(t)
	if _, err := rdmacm.OpenUD(addr(kit.DummyIPv4), nil); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
	id := newID(t, newChannel(t), verbs.PortSpaceUDP)
	kit.OK(t, id.Bind(netip.MustParseAddrPort(kit.DummyIPv4+":0")))
	_, err := id.JoinMulticast(cmGroup, rdmacm.JoinFullMember)
	want := "join multicast group " + cmGroup.String() + ": function not implemented: iWARP has no multicast"
	if !errors.Is(err, verbs.ErrNotSupported) || err.Error() != want {
		t.Error(err)
	}
}

// TestUDMisuse checks that impossible requests are refused, and the errors have the reasons.
func TestUDMisuse(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	for local, want := range map[string]error{"0.0.0.0": syscall.EINVAL, "192.0.2.1": syscall.EADDRNOTAVAIL, "127.0.0.1": nil} {
		c, err := rdmacm.OpenUD(addr(local), nil)
		if t.Log(err); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", local, err)
		}
		if err == nil {
			c.Close()
		}
	}
	a, _ := cmPair(t, kit.Setup{}, kit.Setup{})
	if _, err := a.Lookup(t.Context(), kit.RxeIPv4+":9", nil); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	if _, err := a.JoinMulticast(t.Context(), cmGroup, rdmacm.JoinFullMember); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
}
