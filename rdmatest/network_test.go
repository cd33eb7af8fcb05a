package rdmatest_test

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// inBubbles runs a test on two hosts of each kind, each time in a bubble of its own.
func inBubbles(t *testing.T, test func(t *testing.T, f *rdmatest.Fabric, k rdmatest.Kind)) {
	for _, k := range rdmatest.Kinds {
		t.Run(k.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, rdmatest.NewWith(t, &rdmatest.Options{Kind: k}), k) })
		})
	}
}

// separations are the ways to separate two hosts.
var separations = map[string]func(f *rdmatest.Fabric) (undo func()){
	"link": func(f *rdmatest.Fabric) func() {
		f.Host(1).Device(0).SetLink(false)
		return func() { f.Host(1).Device(0).SetLink(true) }
	},
	"loss":      func(f *rdmatest.Fabric) func() { f.SetLoss(1); return func() { f.SetLoss(0) } },
	"partition": func(f *rdmatest.Fabric) func() { return f.Partition(f.Host(1), f.Host(0)) },
}

// TestDialUnreachable: a host that nothing reaches refuses nothing. The connection manager gives up

// after a while.
func TestDialUnreachable(t *testing.T) {
	for name, separate := range separations {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, func(t *testing.T, f *rdmatest.Fabric, _ rdmatest.Kind) {
				undo := separate(f)
				start := time.Now()
				_, err := rdmacm.Dial(t.Context(), f.Host(1).Addr()+":1")
				if took := time.Since(start); !errors.Is(err, syscall.ETIMEDOUT) || took < 2*time.Second || took > time.Minute {
					t.Error(err, took)
				}
				undo()
				if _, err := rdmacm.Dial(t.Context(), f.Host(1).Addr()+":1"); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Error("reachable again:", err)
				}
			})
		})
	}
}

// TestDialRemoved: over RoCE nobody answers for a device that was removed, 16 times in 73.7

// seconds; its network device, which iWARP uses, refuses.
func TestDialRemoved(t *testing.T) {
	inBubbles(t, func(t *testing.T, f *rdmatest.Fabric, k rdmatest.Kind) {
		l := must(rdmacm.Listen(f.Host(1).Addr() + ":0"))(t)
		defer l.Close()
		f.Host(1).Device(0).Remove()
		start := time.Now()
		_, err := rdmacm.Dial(t.Context(), l.Addr().String())
		want, wait := error(syscall.ETIMEDOUT), 16*(4096+2*256)*time.Millisecond
		if k == rdmatest.SIW || k == rdmatest.ERDMA {
			want, wait = syscall.ECONNREFUSED, 0
		}
		if took := time.Since(start); !errors.Is(err, want) || took != wait {
			t.Error(err, took)
		}
	})
}

// TestHandshakeLost: requests and answers that are lost are sent again, after the kernel's times:

// TestDisconnectUnreachable: the peer hears of the end of a connection when there is a way to tell

// it, over iWARP, or never, over RoCE.
func TestDisconnectUnreachable(t *testing.T) {
	for name, separate := range separations {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, func(t *testing.T, f *rdmatest.Fabric, k rdmatest.Kind) {
				a, b := meet(t, f, nil)
				undo := separate(f)
				if err := a.Close(); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				select {
				case <-b.Done():
					t.Error("the peer heard of it:", b.Err())
				default:
				}
				time.Sleep(time.Minute)
				undo()
				time.Sleep(2 * time.Minute)
				isStream := k == rdmatest.SIW || k == rdmatest.ERDMA
				select {
				case <-b.Done():
					if !isStream {
						t.Error("the peer heard of it:", b.Err())
					}
				default:
					if isStream {
						t.Error("the peer did not hear of it")
					}
				}
			})
		})
	}
}

// TestDisconnectAgain: a connection that is disconnected and kept tries again until the peer

// hears.
func TestDisconnectAgain(t *testing.T) {
	inBubbles(t, func(t *testing.T, f *rdmatest.Fabric, _ rdmatest.Kind) {
		a, b := meet(t, f, nil)
		heal := f.Partition(f.Host(0), f.Host(1))
		if err := a.Disconnect(); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Second)
		heal()
		<-b.Done()
		<-a.Done()
	})
}

// TestPartition: of three hosts two are parted; the third reaches both.
func TestPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rdmatest.NewWith(t, &rdmatest.Options{Hosts: make([]rdmatest.HostOptions, 3)})
		heal := f.Partition(f.Host(0), f.Host(1))
		for _, c := range []struct {
			from, to int
			want     error
		}{{0, 1, syscall.ETIMEDOUT}, {1, 0, syscall.ETIMEDOUT}, {0, 2, syscall.ECONNREFUSED}, {2, 1, syscall.ECONNREFUSED}, {1, 1, syscall.ECONNREFUSED}} {
			ctx := f.Host(c.from).Context(t.Context())
			if _, err := rdmacm.Dial(ctx, f.Host(c.to).Addr()+":1"); !errors.Is(err, c.want) {
				t.Errorf("from %d to %d: %v, want %v", c.from, c.to, err, c.want)
			}
		}
		heal()
		heal()
		a, b := two(t, f, verbs.QPTypeRC, all)
		defer f.Partition(f.Host(2), f.Host(1))()
		a.post(a.to(b, verbs.OpSend, 8))
		if got := outcome(a.next()); got != "1 SEND success" {
			t.Error(got)
		}
		cut := f.Partition(f.Host(1), f.Host(0))
		a.post(a.to(b, verbs.OpSend, 8))
		time.Sleep(time.Second)
		if n, err := a.cq.Poll(make([]verbs.WC, 1)); n > 0 || err != nil {
			t.Error("it arrived:", err)
		}
		cut()
		if got := outcome(a.next()); got != "1 SEND success" {
			t.Error(got)
		}
	})
}

// TestAcceptAbandoned: a peer that gives up before it is accepted makes Accept fail as on Linux:

// TestAckTimeouts: the default of the connection manager, and what the accepting side makes of

// TestConnectionSurvives: a link may be down for seconds under a connection with the kernel's

// defaults.
func TestConnectionSurvives(t *testing.T) {
	for _, k := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		synctest.Test(t, func(t *testing.T) {
			f := rdmatest.NewWith(t, &rdmatest.Options{Kind: k})
			a, _ := meet(t, f, &rdmacm.Config{RetryCount: 6})
			f.Host(1).Device(0).SetLink(false)
			start := time.Now()
			wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled}
			if _, err := a.QP().PostSend([]verbs.SendWR{wr}); err != nil {
				t.Fatal(err)
			}
			wcs := make([]verbs.WC, 1)
			_, err := a.SendCQ().Wait(t.Context(), wcs)
			if took := time.Since(start); err != nil || wcs[0].Status != verbs.StatusRetryExcErr || took != 7*(4096*time.Nanosecond<<17) {
				t.Errorf("%v: %v, %v after %v", k, wcs[0].Status, err, took)
			}
		})
	}
}

// TestKill: a process that is killed takes nothing with it: its peer hears of it, its host

// TestSlowAccept: a program over RoCE has 15 times 66 seconds to accept, because its kernel says that

// TestConfirmationLost: over RoCE the third message of a handshake is sent again when the second one

// TestSendToClosed: over iWARP what is sent to a connection that is closed ends this side, also
