//go:build vm

package cm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestCMRxeOptions checks that the queue pair has the packet options of Config.
func TestCMRxeOptions(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	l := kit.Must(rdmacm.Listen(t.Context(), kit.RxeIPv4+":0"))(t)
	served := acceptOne(t, l)
	c := kit.Must((&rdmacm.Dialer{Config: rdmacm.Config{TransportOptions: rdmacm.TransportOptions{TOS: 0x20, AckTimeout: time.Second}}}).Dial(t.Context(), l.Addr().String()))(t)
	if attr := kit.Must(c.QP().Query())(t); attr.AckTimeout != 4096<<18 || attr.AH.TrafficClass != 0x20 {
		t.Errorf("acknowledgement time-out %v, traffic class %#x", attr.AckTimeout, attr.AH.TrafficClass)
	}
	kit.OK(t, c.Close())
	<-served
	kit.OK(t, l.Close())
}

// TestCMRxeAckTimeouts checks that the acknowledgement time-outs that the kernel chooses for both sides, when the
// dialling side sets one or none. TestAckTimeouts of rdmatest has the same table.
func TestCMRxeAckTimeouts(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	l := kit.Must(rdmacm.Listen(t.Context(), kit.RxeIPv4+":0"))(t)
	path := uint8(17) // the life time of a path is 2^16 × 4.096 µs
	if kit.OnKernel("6.1") {
		path = 19
	}
	for _, c := range []struct {
		set               time.Duration
		dialled, accepted uint8
	}{{0, path, path}, {100 * time.Millisecond, 15, 16}, {8 * time.Second, 21, 21}} {
		accepted := make(chan *rdmacm.Conn, 1)
		go func() { accepted <- kit.Must(l.Accept(context.Background()))(t) }()
		dialled := kit.Must((&rdmacm.Dialer{Config: rdmacm.Config{TransportOptions: rdmacm.TransportOptions{AckTimeout: c.set}}}).Dial(t.Context(), l.Addr().String()))(t)
		for conn, want := range map[*rdmacm.Conn]uint8{dialled: c.dialled, <-accepted: c.accepted} {
			if a := kit.Must(conn.QP().Query())(t); a.AckTimeout != 4096<<want || a.RetryCnt != 7 {
				t.Errorf("%v: %v, %d retries, want %d", c.set, a.AckTimeout, a.RetryCnt, want)
			}
			kit.OK(t, conn.Close())
		}
	}
	kit.OK(t, l.Close())
}

// acceptOne accepts one connection, and closes it after the peer.
func acceptOne(t *testing.T, l *rdmacm.Listener) <-chan struct{} {
	served := make(chan struct{})
	go func() {
		defer close(served)
		c, err := l.Accept(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		<-c.Done()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	return served
}

// TestCMRxeNames checks that Dial finds the address on which a program listens, if a name has
// addresses of both families, in either order.
func TestCMRxeNames(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	hosts, err := os.ReadFile("/etc/hosts")
	kit.OK(t, err)
	t.Cleanup(func() { kit.OK(t, os.WriteFile("/etc/hosts", hosts, 0o644)) })
	kit.OK(t, os.WriteFile("/etc/hosts", append(hosts, "\n"+kit.RxeIPv6+" both\n"+kit.RxeIPv4+" both\n"...), 0o644))
	resolver := &net.Resolver{PreferGo: true}
	if ips, err := resolver.LookupNetIP(context.Background(), "ip", "both"); err != nil || len(ips) != 2 {
		t.Fatal(ips, err)
	}
	for _, host := range []string{kit.RxeIPv4, kit.RxeIPv6} {
		l := kit.Must(rdmacm.Listen(t.Context(), kit.HostPort(host, "0")))(t)
		served := acceptOne(t, l)
		_, port, err := net.SplitHostPort(l.Addr().String())
		kit.OK(t, err)
		c := kit.Must((&rdmacm.Dialer{Resolver: resolver}).Dial(t.Context(), "both:"+port))(t)
		if got := c.RemoteAddr().Addr(); got != netip.MustParseAddr(host) {
			t.Errorf("connected to %v, want %s", got, host)
		}
		kit.OK(t, c.Close())
		<-served
		kit.OK(t, l.Close())
	}
}

// TestCMRxeNamespaces uses rxe on the two ends of a veth pair in different network namespaces. Linux 6.1 and 6.12 have
// one UDP socket for all of rxe, in the first namespace, so programs in other namespaces never answer, in C or Go.
// Later kernels have a socket in each namespace, and then it works.
func TestCMRxeNamespaces(t *testing.T) {
	kit.RxeFabric(t)
	kit.Sh(t, `set -e
		ip netns add gvrfar
		ip link add gvrnhere type veth peer name gvrnthere
		ip link set gvrnthere netns gvrfar
		ip addr add 10.79.0.1/24 dev gvrnhere
		ip link set gvrnhere up
		ip -n gvrfar addr add 10.79.0.2/24 dev gvrnthere
		ip -n gvrfar link set gvrnthere up
		../../bin/rdmalink add gvrxen1 type rxe netdev gvrnhere
		ip netns exec gvrfar ../../bin/rdmalink add gvrxen2 type rxe netdev gvrnthere`)
	// Deleting the interface may take the kernel a minute, because packets that wait for an answer
	// hold it. The test doesn't wait for that.
	t.Cleanup(func() {
		kit.Sh(t, `../../bin/rdmalink del gvrxen1 && ../../bin/rdmalink del gvrxen2 || exit
			(ip link del gvrnhere; ip netns del gvrfar) < /dev/null > /dev/null 2>&1 &`)
		kit.Until(t, "off the list", func() bool { _, err := os.Stat("/sys/class/net/gvrnhere"); return err != nil })
	})
	const udpPort = ":12B7 " // 4791, the port of RoCE v2
	answers := strings.Contains(kit.Sh(t, "ip netns exec gvrfar cat /proc/net/udp"), udpPort)
	t.Log("rxe has a socket in the other namespace:", answers)
	for _, program := range []string{"C", "Go"} {
		t.Run(program, func(t *testing.T) {
			kit.NoLeak(t)
			cmd := kit.Rping(program, "-s -a 10.79.0.2")
			far := exec.Command("ip", append([]string{"netns", "exec", "gvrfar"}, cmd.Args...)...)
			far.Env = os.Environ()
			server := kit.ServeCM(t, far, "7174")
			if answers {
				kit.Pinged(t, server, kit.Launch(t, kit.Rping("Go", "-c -V -C 20 -a 10.79.0.2")))
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			if _, err := rdmacm.Dial(ctx, "10.79.0.2:7174"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
			server.Process.Kill()
		})
	}
}

// TestCMRxeRping runs all pairs of programs over rxe, on a dummy and on a veth interface, with both
// address families; see TestRping. A ping takes a dozen packets, each of which waits for a kernel
// thread, so only pairs with C send many pings.
func TestCMRxeRping(t *testing.T) {
	cmVeth(t)
	type pair struct {
		server, client string
		pings          int
		sideBySide     bool
	}
	for _, pair := range kit.FewElsewhere([]pair{
		{"C", "Go", 40, true}, {"Go", "C", 40, true}, {"Go", "Go", 20, true},
		{"C", "Go poll", 10, false}, {"Go poll", "C", 10, false}, {"Go poll", "Go poll", 10, false},
	}, 2) {
		t.Run(fmt.Sprintf("%s serves %s", pair.server, pair.client), func(t *testing.T) {
			kit.NoLeak(t)
			var ends [][2]*kit.Running
			addrs := []string{kit.RxeIPv4, cmVethIPv6, kit.RxeIPv6, cmVethIPv4}
			if !pair.sideBySide {
				addrs = addrs[:2]
			}
			for i, addr := range addrs {
				port, pings := fmt.Sprint(7174+i), 10
				if i == 0 {
					pings = pair.pings
				}
				line := " -p " + port + " -a " + addr
				server := kit.ServeCM(t, kit.Rping(pair.server, "-s"+line), port)
				client := kit.Launch(t, kit.Rping(pair.client, fmt.Sprintf("-c -V -C %d%s", pings, line)))
				if ends = append(ends, [2]*kit.Running{server, client}); !pair.sideBySide {
					kit.Pinged(t, server, client)
				}
			}
			for _, end := range ends {
				if pair.sideBySide {
					kit.Pinged(t, end[0], end[1])
				}
			}
		})
	}
}

// TestCMRxeRpingText checks that C's program and ours print the same with -v.
func TestCMRxeRpingText(t *testing.T) {
	kit.Only612(t)
	kit.RxeFabric(t)
	const line = "-v -C 12 -S 65535"
	serve := func(t *testing.T, cmd *exec.Cmd) *kit.Running { return kit.ServeCM(t, cmd, "7174") }
	var want [2]string
	for _, pair := range []struct{ server, client string }{{"C", "Go"}, {"Go", "C"}, {"Go", "Go"}} {
		t.Run(fmt.Sprintf("%s serves %s", pair.server, pair.client), func(t *testing.T) {
			kit.NoLeak(t)
			got := kit.RpingText(t, serve, pair.server, pair.client, line, kit.RxeIPv4)
			if want[0] == "" {
				want = got
			}
			if got[0] == "" || got != want {
				t.Errorf("not the same:\n%.400q\n%.400q", got, want)
			}
		})
	}
}

// TestCMRxePing is TestCMPing over RoCE. It listens on one address or on all, and dials each kind.
func TestCMRxePing(t *testing.T) {
	kit.CMLink(t, "rxe")
	for _, test := range kit.FewElsewhere([]struct{ listen, host string }{
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
			kit.NoLeak(t)
			l := kit.Must(rdmacm.Listen(t.Context(), test.listen))(t)
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

// TestCMRxeManyConns checks that many connections leave nothing behind.
func TestCMRxeManyConns(t *testing.T) {
	kit.Only612(t)
	kit.RxeFabric(t)
	kit.NoLeak(t)
	l := kit.Must(rdmacm.Listen(t.Context(), kit.RxeIPv4+":0"))(t)
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

// TestCMRxeErrors checks three errors: nobody listens, the program rejects, or there is no host.
func TestCMRxeErrors(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	for addr, want := range map[string]error{
		kit.RxeIPv4 + ":9":               syscall.ECONNREFUSED,
		kit.HostPort(kit.RxeIPv6, "9"):   syscall.ECONNREFUSED,
		"192.0.2.1:9":                    syscall.ENETUNREACH,
		kit.HostPort("2001:db8::1", "9"): syscall.ENETUNREACH,
	} {
		_, err := rdmacm.Dial(t.Context(), addr)
		if t.Log(err); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", addr, err, want)
		}
	}
	var rejected *rdmacm.RejectedError
	_, err := rdmacm.Dial(t.Context(), kit.RxeIPv4+":9")
	if !errors.As(err, &rejected) || rejected.Reason != rdmacm.RejectInvalidServiceID {
		t.Error(err)
	}
	l := kit.Must(rdmacm.Listen(t.Context(), kit.RxeIPv4+":0"))(t)
	kit.CloseLater(t, l)
	if _, err := rdmacm.Listen(t.Context(), l.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Error(err)
	}
}

// TestCMRxeReject checks that the private data of a rejection arrives, padded with zeros as on InfiniBand. A C client
// also gets it.
func TestCMRxeReject(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	l := kit.Must(rdmacm.Listen(t.Context(), kit.RxeIPv4+":7174"))(t)
	kit.CloseLater(t, l)
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
	_, err := rdmacm.Dial(t.Context(), l.Addr().String())
	var rejected *rdmacm.RejectedError
	if !errors.As(err, &rejected) || !errors.Is(err, syscall.ECONNREFUSED) || rejected.Reason != rdmacm.RejectConsumer {
		t.Fatal(err)
	}
	if got := string(rejected.PrivateData); got != "not today"+strings.Repeat("\x00", 148-9) {
		t.Errorf("private data %q", got)
	}

	go refuse()
	client := kit.Launch(t, kit.Rping("C", "-c -C 1 -a "+kit.RxeIPv4)) // need not exit after that
	kit.Until(t, "rejected", func() bool { return strings.Contains(client.Err.SoFar(), "RDMA_CM_EVENT_REJECTED, error 28") })

	// A C program rejects too: ucmatose does if it can't create a CQ of this size.
	kit.ServeCM(t, exec.Command("ucmatose", "-C", "2000000"), "7471")
	if _, err := dialRxe(t, "7471", nil); !errors.As(err, &rejected) || rejected.Reason != rdmacm.RejectConsumer {
		t.Error(err)
	}
}

// dialRxe dials a port at kit.RxeIPv4. cfg may be nil.
func dialRxe(t *testing.T, port string, cfg *rdmacm.Config) (*rdmacm.Conn, error) {
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	var d rdmacm.Dialer
	if cfg != nil {
		d.Config = *cfg
	}
	return d.Dial(ctx, kit.RxeIPv4+":"+port)
}

// TestCMRxePrivateData checks the limits, and the bytes that a receiver gets for each length.
func TestCMRxePrivateData(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	l := kit.Must(rdmacm.Listen(t.Context(), kit.RxeIPv4+":0"))(t)
	kit.CloseLater(t, l)
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
		c := kit.Must((&rdmacm.Dialer{Config: rdmacm.Config{PrivateData: []byte(text[:n.connect])}}).Dial(t.Context(), l.Addr().String()))(t)
		if got := string(c.PrivateData()); got != padded(n.accept, 196) {
			t.Errorf("%d bytes came back as %q", n.accept, got)
		}
		for _, c := range []*rdmacm.Conn{c, <-accepted} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	_, err := (&rdmacm.Dialer{Config: rdmacm.Config{PrivateData: []byte(text[:57])}}).Dial(t.Context(), l.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "private data too long: 57 bytes given, 56 allowed") {
		t.Error(err)
	}
}

// cmPair returns two connected ends over rxe.
func cmPair(t *testing.T, client, server kit.Setup) (*kit.End, *kit.End) {
	t.Helper()
	kit.RxeFabric(t)
	return kit.ConnectAt(t, kit.RxeIPv4+":0", client, server)
}

// TestCMRxeRetryCounts checks that the dialler's RetryCount applies to both ends, RNRRetryCount to the peer's sends.
func TestCMRxeRetryCounts(t *testing.T) {
	for _, test := range []struct {
		client, server     rdmacm.Config
		clientRNR, servers uint8
		retry              uint8
	}{
		{rdmacm.Config{}, rdmacm.Config{}, 7, 7, 7},
		{rdmacm.Config{TransportOptions: rdmacm.TransportOptions{RetryCount: 3}, PeerRNRRetryCount: 2}, rdmacm.Config{TransportOptions: rdmacm.TransportOptions{RetryCount: 6}, PeerRNRRetryCount: 5}, 5, 2, 3},
		{rdmacm.Config{TransportOptions: rdmacm.TransportOptions{RetryCount: -1}, PeerRNRRetryCount: -1}, rdmacm.Config{PeerRNRRetryCount: 99}, 7, 0, 0},
	} {
		a, b := cmPair(t, kit.Setup{Cfg: test.client}, kit.Setup{Cfg: test.server})
		got, gotServer := kit.Must(a.QP().Query())(t), kit.Must(b.QP().Query())(t)
		if got.RetryCnt != test.retry || gotServer.RetryCnt != test.retry {
			t.Errorf("retries %d, %d, want %d", got.RetryCnt, gotServer.RetryCnt, test.retry)
		}
		if got.RNRRetry != test.clientRNR || gotServer.RNRRetry != test.servers {
			t.Errorf("RNR retries %d, %d, want %d, %d", got.RNRRetry, gotServer.RNRRetry, test.clientRNR, test.servers)
		}
	}
}

// TestCMRxeReadLimits checks that the queue pairs have the limits of both sides, which rxe rounds up to a power of two.
func TestCMRxeReadLimits(t *testing.T) {
	a, b := cmPair(t, kit.Setup{Cfg: rdmacm.Config{ResponderResources: 8, InitiatorDepth: 4}}, kit.Setup{})
	client, server := kit.Must(a.QP().Query())(t), kit.Must(b.QP().Query())(t)
	if client.MaxRDAtomic != 4 || client.MaxDestRDAtomic != 8 || server.MaxRDAtomic != 8 || server.MaxDestRDAtomic != 4 {
		t.Errorf("client issues %d and serves %d, server %d and %d",
			client.MaxRDAtomic, client.MaxDestRDAtomic, server.MaxRDAtomic, server.MaxDestRDAtomic)
	}
}

// TestCMRxeRDMA writes, reads and sends over a connection.
func TestCMRxeRDMA(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	a, b := cmPair(t, kit.Setup{}, kit.Setup{Recvs: 1})
	mine, theirs := a.MR.Bytes(), b.MR.Bytes()
	sge := []verbs.SGE{a.MR.SGE(kit.SendFrom, 5000)}
	copy(mine[kit.SendFrom:], strings.Repeat("written ", 625))
	a.Post(a.AtPeer(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: sge}))
	a.Sent("1 RDMA_WRITE success")
	if got := string(theirs[:5000]); got != strings.Repeat("written ", 625) {
		t.Errorf("written: %.20q", got)
	}
	copy(theirs, strings.Repeat("read ", 1000))
	a.Post(a.AtPeer(verbs.SendWR{WRID: 2, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: sge}))
	a.Sent("2 RDMA_READ success")
	if got := string(mine[kit.SendFrom : kit.SendFrom+5000]); got != strings.Repeat("read ", 1000) {
		t.Errorf("read: %.20q", got)
	}
	a.Post(verbs.SendWR{WRID: 3, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{a.MR.SGE(kit.SendFrom, 10)}})
	a.Sent("3 SEND success")
	b.Got("1000 RECV success 10")
}

// TestCMRxeDisconnect checks that both sides notice the end, and posted work is flushed.
func TestCMRxeDisconnect(t *testing.T) {
	a, b := cmPair(t, kit.Setup{Recvs: 1}, kit.Setup{Recvs: 2})
	if err := a.Disconnect(); err != nil {
		t.Error(err)
	}
	for _, e := range []*kit.End{a, b} {
		if err := e.Ended(); !errors.Is(err, rdmacm.ErrDisconnected) {
			t.Error(err)
		}
		flushedRecv(e, 1000)
		if state := kit.Must(e.QP().Query())(t).State; state != verbs.QPStateErr {
			t.Error("QP in", state)
		}
	}
	flushedRecv(b, 1001)
	if err := a.Disconnect(); err == nil {
		t.Error("disconnected twice")
	}
}

// flushedRecv waits for a receive that the end of the connection has flushed. Its opcode is undefined.
func flushedRecv(e *kit.End, id uint64) {
	e.T.Helper()
	if wc := e.Next(e.RecvCQ()); wc.WRID != id || wc.Status != verbs.StatusWRFlushErr {
		e.T.Errorf("receive completion %q, want %d flushed", kit.Brief(wc), id)
	}
}

// TestCMRxePeerKilled checks that when a process dies, its kernel disconnects.
func TestCMRxePeerKilled(t *testing.T) {
	kit.RxeFabric(t)
	for name, op := range map[string]verbs.Opcode{"idle": kit.Idle, "it writes": verbs.OpRDMAWrite, "it reads": verbs.OpRDMARead} {
		t.Run(name, func(t *testing.T) {
			kit.NoLeak(t)
			ln := kit.Must(rdmacm.Listen(t.Context(), kit.RxeIPv4+":0"))(t)
			kit.CloseLater(t, ln)
			p := kit.Start(t, kit.Child("transfer", ln.Addr().String(), fmt.Sprint(int(op))))
			ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
			defer cancel()
			e := &kit.End{T: t}
			e.Conn = kit.Must(kit.Must(ln.Next(ctx))(t).Accept(ctx, e.Config(kit.Setup{Size: kit.KillSize, Recvs: 2})))(t)
			kit.CloseLater(t, e)
			p.Line(t) // it has begun
			p.Process.Kill()
			if err := e.Ended(); !errors.Is(err, rdmacm.ErrDisconnected) {
				t.Error(err)
			}
			for i := range 2 {
				flushedRecv(e, uint64(1000+i))
			}
		})
	}
}

// TestCMRxeCancel checks that each wait ends with its context. One dial is to a listener that doesn't answer, another
// to an address without a host.
func TestCMRxeCancel(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	l, silent := kit.Must(rdmacm.Listen(t.Context(), kit.RxeIPv4+":0"))(t), kit.Must(rdmacm.Listen(t.Context(), kit.RxeIPv4+":0"))(t)
	kit.CloseLater(t, l)
	kit.CloseLater(t, silent)
	for name, wait := range map[string]func(context.Context) error{
		"accept":       func(ctx context.Context) error { _, err := silent.Accept(ctx); return err },
		"dial":         func(ctx context.Context) error { _, err := rdmacm.Dial(ctx, l.Addr().String()); return err },
		"dial silence": func(ctx context.Context) error { _, err := rdmacm.Dial(ctx, "10.83.0.99:1"); return err },
		"look up silence": func(ctx context.Context) error {
			_, err := (&rdmacm.Dialer{Config: rdmacm.Config{QP: uverbs.QPOptions{Type: verbs.QPTypeUD}}}).Dial(ctx, "10.83.0.99:1")
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
