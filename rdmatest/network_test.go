package rdmatest_test

import (
	"encoding/binary"
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

// TestDialUnreachable checks that a host that nothing reaches refuses nothing. The connection manager
// gives up after a while.
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

// TestDialRemoved checks that over RoCE nobody answers for a device that was removed, 16 times in
// 73.7 seconds; its network device, which iWARP uses, refuses.
func TestDialRemoved(t *testing.T) {
	inBubbles(t, func(t *testing.T, f *rdmatest.Fabric, k rdmatest.Kind) {
		l := must(rdmacm.Listen(t.Context(), f.Host(1).Addr()+":0"))(t)
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

// TestDisconnectUnreachable checks that the peer hears of the end of a connection when there is a
// path to report it, over iWARP, or never, over RoCE.
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

// TestDisconnectAgain checks that a connection that is disconnected and kept tries again until the
// peer hears.
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

// TestPartition checks that of three hosts two are parted; the third reaches both.
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

// TestConnectionSurvives checks that a link may be down for seconds under a connection with the
// kernel's defaults.
func TestConnectionSurvives(t *testing.T) {
	for _, k := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		synctest.Test(t, func(t *testing.T) {
			f := rdmatest.NewWith(t, &rdmatest.Options{Kind: k})
			a, _ := meet(t, f, &rdmacm.Config{TransportOptions: rdmacm.TransportOptions{RetryCount: 6}})
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

// TestSequence checks that a packet that a queue pair does not expect, as one is that a former
// connection sends to the same number, is not answered on a reliable connection. An unreliable one
// takes the first packet of any message.
func TestSequence(t *testing.T) {
	for typ, want := range map[verbs.QPType]string{verbs.QPTypeRC: "1 transport retries exceeded", verbs.QPTypeUC: "1 SEND success"} {
		for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
			synctest.Test(t, func(t *testing.T) {
				f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
				a, b := newNode(t, f.Host(0).Device(0), typ, all), newNode(t, f.Host(1).Device(0), typ, all)
				a.connect(b, func(q *verbs.QPAttr) { q.SQPSN, q.AckTimeout, q.RetryCnt = 7, 1, 1 })
				b.connect(a, func(q *verbs.QPAttr) { q.RQPSN = 8 })
				b.receive(1000, 0, recvSize)
				a.post(a.to(b, verbs.OpSend, 8))
				if got := outcome(a.next()); got != want {
					t.Errorf("%v on %v: %s, want %s", typ, kind, got, want)
				}
			})
		}
	}
}

// A send with a fence has what the READ before it fetched; one without is taken before.
func TestFence(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		for flags, want := range map[verbs.SendFlags]string{0: "old", verbs.SendFence: "new"} {
			synctest.Test(t, func(t *testing.T) {
				f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
				a, b := two(t, f, verbs.QPTypeRC, all)
				f.SetLatency(time.Second)
				copy(b.mr.Bytes()[sendFrom:], "new")
				copy(a.mr.Bytes()[sendFrom:], "old")
				read := a.to(b, verbs.OpRDMARead, 3)
				read.RemoteAddr += sendFrom
				a.post(read)
				send := a.to(b, verbs.OpSend, 3)
				send.WRID, send.Flags = 2, flags
				a.post(send)
				if wc := b.next(); wc.WRID != 1000 || string(b.mr.Bytes()[:3]) != want {
					t.Errorf("%v, fence %v: %v, %q", kind, flags, outcome(wc), b.mr.Bytes()[:3])
				}
				if first, second := a.next(), a.next(); first.WRID != 1 || second.WRID != 2 {
					t.Errorf("%v then %v", outcome(first), outcome(second))
				}
			})
		}
	}
}

// TestStoreWhileRead checks that a server stores while a client reads and writes beside it, as with a
// cache of one-sided reads. The race detector sees nothing of the client, as of a device, and each
// aligned word is whole.
func TestStoreWhileRead(t *testing.T) {
	onKinds(t, func(t *testing.T, f *rdmatest.Fabric) {
		a, b := meet(t, f, nil)
		cache := make([]byte, 128)
		reader := region(t, a, nil)
		mr := closed(t, must(b.PD().RegMR(cache, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite))(t))
		const rounds = 100
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range uint64(rounds) {
				binary.NativeEndian.PutUint64(cache, i<<32|i)
				_ = cache[64]
			}
		}()
		wcs := make([]verbs.WC, 1)
		for range rounds {
			for _, wr := range []verbs.SendWR{
				{Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{reader.SGE(0, 64)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()},
				{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{reader.SGE(64, 64)}, RemoteAddr: mr.Addr() + 64, RKey: mr.RKey()},
			} {
				wr.Flags = verbs.SendSignaled
				if _, err := a.QP().PostSend([]verbs.SendWR{wr}); err != nil {
					t.Fatal(err)
				}
				if _, err := a.SendCQ().Wait(t.Context(), wcs); err != nil || wcs[0].Status != verbs.StatusSuccess {
					t.Fatal(wcs[0].Status, err)
				}
			}
			// Under the race detector PutUint64 is several stores.
			if v := binary.NativeEndian.Uint64(reader.Bytes()); v>>32 != v&(1<<32-1) && !raceEnabled {
				t.Errorf("a word is torn: %#x", v)
			}
		}
		<-done
	})
}
