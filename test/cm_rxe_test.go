//go:build vm

package test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestCMRxeRping is every pair of programs over rxe, on a dummy and on a veth
// interface, with both address families; see TestRping. A ping is a dozen packets,
// each of which waits for a kernel thread: many pings only where C takes part.
func TestCMRxeRping(t *testing.T) {
	cmVeth(t)
	type pair struct {
		server, client string
		pings          int
		sideBySide     bool
	}
	for _, pair := range fewElsewhere([]pair{
		{"C", "Go", 40, true}, {"Go", "C", 40, true}, {"Go", "Go", 20, true},
		{"C", "Go poll", 10, false}, {"Go poll", "C", 10, false}, {"Go poll", "Go poll", 10, false},
	}, 2) {
		t.Run(fmt.Sprintf("%s serves %s", pair.server, pair.client), func(t *testing.T) {
			noLeak(t)
			var ends [][2]*running
			for i, addr := range []string{rxeIPv4, rxeIPv6, cmVethIPv4, cmVethIPv6} {
				port, pings := fmt.Sprint(7174+i), 10
				if i == 0 {
					pings = pair.pings
				}
				line := " -p " + port + " -a " + addr
				server := serveCM(t, rping(pair.server, "-s"+line), port)
				client := launch(t, rping(pair.client, fmt.Sprintf("-c -V -C %d%s", pings, line)))
				if ends = append(ends, [2]*running{server, client}); !pair.sideBySide {
					pinged(t, server, client)
				}
			}
			for _, end := range ends {
				if pair.sideBySide {
					pinged(t, end[0], end[1])
				}
			}
		})
	}
}

// TestCMRxeRpingText: both programs print the same with -v.
func TestCMRxeRpingText(t *testing.T) {
	only612(t)
	rxeFabric(t)
	const line = "-v -C 12 -S 65535"
	serve := func(t *testing.T, cmd *exec.Cmd) *running { return serveCM(t, cmd, "7174") }
	var want [2]string
	for _, pair := range []struct{ server, client string }{{"C", "Go"}, {"Go", "C"}, {"Go", "Go"}} {
		t.Run(fmt.Sprintf("%s serves %s", pair.server, pair.client), func(t *testing.T) {
			noLeak(t)
			got := rpingText(t, serve, pair.server, pair.client, line, rxeIPv4)
			if want[0] == "" {
				want = got
			}
			if got[0] == "" || got != want {
				t.Errorf("not the same:\n%.400q\n%.400q", got, want)
			}
		})
	}
}

// TestCMRxePing is TestCMPing over RoCE: listening to one address or to all,
// dialling each kind.
func TestCMRxePing(t *testing.T) {
	cmLink(t, "rxe")
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
			noLeak(t)
			l := must(rdmacm.Listen(test.listen, nil))(t)
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

// TestCMRxeManyConns leaves nothing behind however often it is done.
func TestCMRxeManyConns(t *testing.T) {
	only612(t)
	rxeFabric(t)
	noLeak(t)
	l := must(rdmacm.Listen(rxeIPv4+":0", nil))(t)
	served := cmEcho(t, l)
	for i := range 50 {
		if err := cmPing(t.Context(), l.Addr().String(), fmt.Sprint("ping ", i)); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	served.Wait()
}

// TestCMRxeErrors: nobody listens, the program says no, nothing is there.
func TestCMRxeErrors(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	for addr, want := range map[string]error{
		rxeIPv4 + ":9":               syscall.ECONNREFUSED,
		hostPort(rxeIPv6, "9"):       syscall.ECONNREFUSED,
		"192.0.2.1:9":                syscall.ENETUNREACH,
		hostPort("2001:db8::1", "9"): syscall.ENETUNREACH,
	} {
		_, err := rdmacm.Dial(t.Context(), addr, nil)
		if t.Log(err); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", addr, err, want)
		}
	}
	var rejected *rdmacm.RejectedError
	_, err := rdmacm.Dial(t.Context(), rxeIPv4+":9", nil)
	if !errors.As(err, &rejected) || rejected.Reason != rdmacm.RejectInvalidServiceID {
		t.Error(err)
	}
	l := must(rdmacm.Listen(rxeIPv4+":0", nil))(t)
	closeLater(t, l)
	if _, err := rdmacm.Listen(l.Addr().String(), nil); !errors.Is(err, syscall.EADDRINUSE) {
		t.Error(err)
	}
}

// TestCMRxeReject: the peer program's word of explanation arrives, filled up with
// zeros as InfiniBand does; a C client learns of it too.
func TestCMRxeReject(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	l := must(rdmacm.Listen(rxeIPv4+":7174", nil))(t)
	closeLater(t, l)
	refuse := func() {
		r, err := l.Next(t.Context())
		if err == nil {
			err = r.Reject([]byte("not today"))
		}
		if err != nil {
			t.Error(err)
		}
	}
	go refuse()
	_, err := rdmacm.DialAddrPort(t.Context(), l.Addr(), nil)
	var rejected *rdmacm.RejectedError
	if !errors.As(err, &rejected) || !errors.Is(err, syscall.ECONNREFUSED) || rejected.Reason != rdmacm.RejectConsumer {
		t.Fatal(err)
	}
	if got := string(rejected.PrivateData); got != "not today"+strings.Repeat("\x00", 148-9) {
		t.Errorf("private data %q", got)
	}

	go refuse()
	client := launch(t, rping("C", "-c -C 1 -a "+rxeIPv4)) // which need not end after that
	until(t, "rejected", func() bool { return strings.Contains(client.err.soFar(), "RDMA_CM_EVENT_REJECTED, error 28") })

	// And a C program rejects us: ucmatose, when it can't have so large a CQ.
	serveCM(t, exec.Command("ucmatose", "-C", "2000000"), "7471")
	if _, err := dialRxe(t, "7471", nil); !errors.As(err, &rejected) || rejected.Reason != rdmacm.RejectConsumer {
		t.Error(err)
	}
}

// dialRxe dials a port at rxeIPv4.
func dialRxe(t *testing.T, port string, cfg *rdmacm.Config) (*rdmacm.Conn, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return rdmacm.Dial(ctx, rxeIPv4+":"+port, cfg)
}

// TestCMRxePrivateData checks the limits, and the bytes that a receiver sees for each length.
func TestCMRxePrivateData(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	l := must(rdmacm.Listen(rxeIPv4+":0", nil))(t)
	closeLater(t, l)
	text := strings.Repeat("0123456789", 20)
	padded := func(n, to int) string { return text[:n] + strings.Repeat("\x00", to-n) }
	for _, n := range []struct{ connect, accept int }{{0, 0}, {1, 1}, {55, 195}, {56, 196}} {
		accepted := make(chan *rdmacm.Conn, 1)
		go func() {
			defer close(accepted)
			r, err := l.Next(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if got := string(r.PrivateData); got != padded(n.connect, 56) {
				t.Errorf("%d bytes came as %q", n.connect, got)
			}
			c, err := r.Accept(t.Context(), &rdmacm.Config{PrivateData: []byte(text[:n.accept])})
			if err != nil {
				t.Error(err)
				return
			}
			accepted <- c
		}()
		c := must(rdmacm.DialAddrPort(t.Context(), l.Addr(), &rdmacm.Config{PrivateData: []byte(text[:n.connect])}))(t)
		if got := string(c.PrivateData()); got != padded(n.accept, 196) {
			t.Errorf("%d bytes came back as %q", n.accept, got)
		}
		for _, c := range []*rdmacm.Conn{c, <-accepted} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	_, err := rdmacm.DialAddrPort(t.Context(), l.Addr(), &rdmacm.Config{PrivateData: []byte(text[:57])})
	if err == nil || !strings.Contains(err.Error(), "private data too long (57 bytes given, 56 allowed)") {
		t.Error(err)
	}
}

// cmPair is two connected ends over rxe.
func cmPair(t *testing.T, client, server setup) (*end, *end) {
	t.Helper()
	rxeFabric(t)
	return connectAt(t, rxeIPv4+":0", client, server)
}

// TestCMRxeRetryCounts: the dialler's RetryCount holds for both; RNRRetryCount
// for what the peer sends.
func TestCMRxeRetryCounts(t *testing.T) {
	for _, test := range []struct {
		client, server     rdmacm.Config
		clientRNR, servers uint8
		retry              uint8
	}{
		{rdmacm.Config{}, rdmacm.Config{}, 7, 7, 7},
		{rdmacm.Config{RetryCount: 3, RNRRetryCount: 2}, rdmacm.Config{RetryCount: 6, RNRRetryCount: 5}, 5, 2, 3},
		{rdmacm.Config{RetryCount: -1, RNRRetryCount: -1}, rdmacm.Config{RNRRetryCount: 99}, 7, 0, 0},
	} {
		a, b := cmPair(t, setup{cfg: test.client}, setup{cfg: test.server})
		got, gotServer := must(a.QP().Query())(t), must(b.QP().Query())(t)
		if got.RetryCnt != test.retry || gotServer.RetryCnt != test.retry {
			t.Errorf("retries %d, %d, want %d", got.RetryCnt, gotServer.RetryCnt, test.retry)
		}
		if got.RNRRetry != test.clientRNR || gotServer.RNRRetry != test.servers {
			t.Errorf("RNR retries %d, %d, want %d, %d", got.RNRRetry, gotServer.RNRRetry, test.clientRNR, test.servers)
		}
	}
}

// TestCMRxeReadLimits: both sides' limits end up in the queue pairs, where rxe
// rounds them up to a power of two.
func TestCMRxeReadLimits(t *testing.T) {
	a, b := cmPair(t, setup{cfg: rdmacm.Config{ResponderResources: 8, InitiatorDepth: 4}}, setup{})
	client, server := must(a.QP().Query())(t), must(b.QP().Query())(t)
	if client.MaxRDAtomic != 4 || client.MaxDestRDAtomic != 8 || server.MaxRDAtomic != 8 || server.MaxDestRDAtomic != 4 {
		t.Errorf("client issues %d and serves %d, server %d and %d",
			client.MaxRDAtomic, client.MaxDestRDAtomic, server.MaxRDAtomic, server.MaxDestRDAtomic)
	}
}

// TestCMRxeRDMA writes, reads and sends over a connection.
func TestCMRxeRDMA(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	a, b := cmPair(t, setup{}, setup{recvs: 1})
	mine, theirs := a.mr.Bytes(), b.mr.Bytes()
	sge := []verbs.SGE{a.mr.SGE(sendFrom, 5000)}
	copy(mine[sendFrom:], strings.Repeat("written ", 625))
	a.post(a.peer(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: sge}))
	a.sent("1 RDMA_WRITE success")
	if got := string(theirs[:5000]); got != strings.Repeat("written ", 625) {
		t.Errorf("written: %.20q", got)
	}
	copy(theirs, strings.Repeat("read ", 1000))
	a.post(a.peer(verbs.SendWR{WRID: 2, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: sge}))
	a.sent("2 RDMA_READ success")
	if got := string(mine[sendFrom : sendFrom+5000]); got != strings.Repeat("read ", 1000) {
		t.Errorf("read: %.20q", got)
	}
	a.post(verbs.SendWR{WRID: 3, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{a.mr.SGE(sendFrom, 10)}})
	a.sent("3 SEND success")
	b.got("1000 RECV success 10")
}

// TestCMRxeDisconnect: both sides learn of the end, and posted work is flushed.
func TestCMRxeDisconnect(t *testing.T) {
	a, b := cmPair(t, setup{recvs: 1}, setup{recvs: 2})
	if err := a.Disconnect(); err != nil {
		t.Error(err)
	}
	for _, e := range []*end{a, b} {
		if err := e.ended(); !errors.Is(err, rdmacm.ErrDisconnected) {
			t.Error(err)
		}
		e.flushedRecv(1000)
		if state := must(e.QP().Query())(t).State; state != verbs.QPStateErr {
			t.Error("QP in", state)
		}
	}
	b.flushedRecv(1001)
	if err := a.Disconnect(); err == nil {
		t.Error("disconnected twice")
	}
}

// flushedRecv waits for a receive that the end of the connection flushed. Its opcode
// means nothing.
func (e *end) flushedRecv(id uint64) {
	e.t.Helper()
	if wc := e.next(e.RecvCQ()); wc.WRID != id || wc.Status != verbs.StatusWRFlushErr {
		e.t.Errorf("receive completion %q, want %d flushed", brief(wc), id)
	}
}

// TestCMRxePeerKilled: the kernel of a process that dies disconnects for it.
func TestCMRxePeerKilled(t *testing.T) {
	rxeFabric(t)
	for name, op := range map[string]verbs.Opcode{"idle": idle, "it writes": verbs.OpRDMAWrite, "it reads": verbs.OpRDMARead} {
		t.Run(name, func(t *testing.T) {
			noLeak(t)
			ln := must(rdmacm.Listen(rxeIPv4+":0", nil))(t)
			closeLater(t, ln)
			p := start(t, child("victim", ln.Addr().String(), fmt.Sprint(int(op))))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			e := &end{t: t}
			e.Conn = must(must(ln.Next(ctx))(t).Accept(ctx, e.config(setup{size: killSize, recvs: 2})))(t)
			closeLater(t, e)
			p.line(t) // it is under way
			p.Process.Kill()
			if err := e.ended(); !errors.Is(err, rdmacm.ErrDisconnected) {
				t.Error(err)
			}
			for i := range 2 {
				e.flushedRecv(uint64(1000 + i))
			}
		})
	}
}

// TestCMRxeCancel: each wait ends with its context. Nobody answers the request of
// the dial, or, from the address where nobody is, anything.
func TestCMRxeCancel(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	l, silent := must(rdmacm.Listen(rxeIPv4+":0", nil))(t), must(rdmacm.Listen(rxeIPv4+":0", nil))(t)
	closeLater(t, l)
	closeLater(t, silent)
	for name, wait := range map[string]func(context.Context) error{
		"accept":       func(ctx context.Context) error { _, err := silent.Accept(ctx); return err },
		"dial":         func(ctx context.Context) error { _, err := rdmacm.DialAddrPort(ctx, l.Addr(), nil); return err },
		"dial silence": func(ctx context.Context) error { _, err := rdmacm.Dial(ctx, "10.83.0.99:1", nil); return err },
		"look up silence": func(ctx context.Context) error {
			_, err := rdmacm.Dial(ctx, "10.83.0.99:1", &rdmacm.Config{QP: uverbs.QPOptions{Type: verbs.QPTypeUD}})
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}
