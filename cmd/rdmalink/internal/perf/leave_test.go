package perf

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/giveup"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// at is a reporter that does something at a point of the run.
type at struct{ start, size func() }

func (a *at) Start(*Setting) error       { return did(a.start) }
func (a *at) Size(int, int64, *Progress) { _ = did(a.size) }
func (a *at) Latency(*Latency) error     { return nil }
func (a *at) Bandwidth(*Bandwidth) error { return nil }

func did(do func()) error {
	if do != nil {
		do()
	}
	return nil
}

// tcpEnd is an end of a run without a connection manager, on a fake kernel that moves no messages.
func tcpEnd(t *testing.T, conn net.Conn) *TCPPath {
	t.Helper()
	k := fakeverbs.New(uint32(verbs.DriverRXE))
	k.InBubble = true
	dev, err := uverbs.DeviceInfo{Name: "rxe0", Driver: verbs.DriverRXE, ABI: 2, Node: kernel.Node(k)}.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return OverTCP(conn, dev, &verbs.GIDEntry{GID: fakeverbs.IPv4GID, Index: 1})
}

// TestInterruptedTells checks that an interrupt of either end, at any time, is
// reported to the other end before the connection is closed.
func TestInterruptedTells(t *testing.T) {
	for _, test := range allTests {
		for _, victim := range []perftest.Role{perftest.Client, perftest.Server} {
			for _, when := range []string{"start", "size"} {
				if when == "size" && test.ServerIdle() && victim == perftest.Server {
					continue // it measures no size
				}
				t.Run(nameOf(test, when)+" "+[]string{"client", "server"}[victim], func(t *testing.T) {
					interruptOne(t, test, victim, when)
				})
			}
		}
	}
}

func interruptOne(t *testing.T, test perftest.Test, victim perftest.Role, when string) {
	client, server := tcpPair(t)
	var errs [2]chan error
	for role, conn := range []net.Conn{perftest.Client: client, perftest.Server: server} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		reporter := &at{}
		if perftest.Role(role) == victim {
			*map[string]*func(){"start": &reporter.start, "size": &reporter.size}[when] = cancel
		}
		way, ended := tcpEnd(t, conn), make(chan error, 1)
		errs[role] = ended
		go func() {
			defer conn.Close()
			ended <- Run(ctx, Options{Test: test, Role: perftest.Role(role), Iters: 1000}, way, reporter)
		}()
	}
	if err := <-errs[victim]; !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if err := <-errs[1-victim]; !giveup.Is(err) || !strings.Contains(err.Error(), `the peer gave up: "interrupted"`) {
		t.Errorf("the other: %v", err)
	}
}

func tcpPair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp4", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return client, server
}

// TestListen checks that listen finds a give-up message behind another message, and leaves
// that message to its reader. A peer that closes the connection after a message has
// not failed.
func TestListen(t *testing.T) {
	ours, peers := tcpPair(t)
	defer ours.Close()
	way := OverTCP(ours, nil, nil)
	heard := make(chan error, 4)
	stop := way.watch(func(err error) { heard <- err })
	if _, err := peers.Write([]byte("done\x00")); err != nil {
		t.Fatal(err)
	}
	if err := <-heard; err != nil {
		t.Error(err)
	}
	giveup.Say(peers, context.Canceled)
	peers.Close()
	if err := <-heard; !giveup.Is(err) {
		t.Error(err)
	}
	stop()
	got := make([]byte, 5)
	if _, err := way.conn.Read(got); err != nil || string(got) != "done\x00" {
		t.Errorf("%q, %v", got, err)
	}

	ours, peers = tcpPair(t)
	defer ours.Close()
	peers.Write([]byte("x"))
	peers.Close()
	OverTCP(ours, nil, nil).conn.listen(func(err error) { heard <- err })
	if err := <-heard; err != nil || len(heard) > 0 {
		t.Errorf("%v, and %d more", err, len(heard))
	}
}

// TestBlame checks that the peer's reason takes precedence if a QP failed because
// the peer's QP was closed, regardless of the order. Other failures are reported
// without waiting.
func TestBlame(t *testing.T) {
	gone, own := (&verbs.WC{Status: verbs.StatusRetryExcErr}).Err(), errLost
	noQP := (&verbs.WC{Status: verbs.StatusRemInvRDReqErr}).Err() // of EFA
	said := &giveup.Error{Why: "why"}
	for _, test := range []struct {
		err  error
		why  error
		when time.Duration // from the failure on
		want string
	}{
		{gone, said, time.Second, `the peer gave up: "why" (` + gone.Error() + `)`},
		{noQP, said, time.Second, `the peer gave up: "why" (` + noQP.Error() + `)`},
		{gone, said, 0, `the peer gave up: "why" (` + gone.Error() + `)`},
		{gone, context.Canceled, 0, "context canceled (" + gone.Error() + ")"},
		{gone, errPeerGone, 0, gone.Error()},
		{gone, said, time.Hour, gone.Error()},
		{own, said, time.Second, own.Error()},
		{fmt.Errorf("message 2: %w", said), said, 0, `message 2: the peer gave up: "why"`},
		{nil, said, 0, "<nil>"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := new(run)
			r.ctx, r.cancel = context.WithCancelCause(t.Context())
			if test.when == 0 {
				r.cancel(test.why)
			}
			timer := time.AfterFunc(test.when, func() { r.cancel(test.why) })
			defer timer.Stop()
			if err := r.blame(test.err); fmt.Sprint(err) != test.want {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
}

// TestControlMessage checks that the place of a message, as the completion gives
// it, is validated.
func TestControlMessage(t *testing.T) {
	c := new(control)
	for _, wc := range []verbs.WC{{WRID: places}, {WRID: 1 << 63}, {ByteLen: perftest.MaxMessage + 1}, {ByteLen: 1<<32 - 1}} {
		if _, err := c.message(&wc); err == nil {
			t.Errorf("%+v is taken", wc)
		}
	}
}
