package oob

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestConnect connects queue pairs of each type on each device, in streams and in halves, and sends both ways.
func TestConnect(t *testing.T) {
	for name, d := range devices {
		for _, kind := range types(name) {
			t.Run(fmt.Sprint(name, "/", kind), func(t *testing.T) {
				t.Run("stream", func(t *testing.T) {
					w := newWorld(t, d)
					a, b := w.mustConnect(kind)
					checkConnected(t, a, b)
				})
				t.Run("halves", func(t *testing.T) {
					w := newWorld(t, d)
					a, b := w.halves(w.config(0, kind), w.config(1, kind))
					checkConnected(t, a, b)
				})
			})
		}
	}
}

// TestLikeGVisor connects on drivers that gVisor supports, with only the calls that its proxy forwards. Without completion
// channels, Wait polls.
func TestLikeGVisor(t *testing.T) {
	for _, name := range []string{"mlx5", "InfiniBand", "efa"} {
		for _, kind := range types(name) {
			w := newWorld(t, devices[name])
			var struck []func() int
			for _, h := range w.fabric.Hosts() {
				struck = append(struck, conntest.LikeGVisor(w.fabric, h.Device(0)))
			}
			a, b := w.mustConnect(kind)
			checkConnected(t, a, b)
			if err := errors.Join(a.Close(), b.Close()); err != nil {
				t.Error(err)
			}
			for _, n := range struck {
				if n := n(); n != 1 { // for a completion channel
					t.Errorf("%s, %v: %d calls were refused", name, kind, n)
				}
			}
		}
	}
}

// halves connects both ends by bytes.
func (w *world) halves(dial, accept *Config) (a, b *Conn) {
	w.t.Helper()
	half, err := Offer(dial)
	if err != nil {
		w.t.Fatal(err)
	}
	closeLater(w.t, half)
	b, answer, err := Answer(w.t.Context(), half.Bytes(), accept)
	if err != nil {
		w.t.Fatal(err)
	}
	closeLater(w.t, b)
	if a, err = half.Connect(answer); err != nil {
		w.t.Fatal(err)
	}
	closeLater(w.t, a)
	return a, b
}

func checkConnected(t *testing.T, a, b *Conn) {
	t.Helper()
	for _, c := range []*Conn{a, b} {
		if err := c.Err(); err != nil {
			t.Error(err)
		}
	}
	if got, want := string(a.PrivateData()), "memory of "+b.Device().Info().Name; got != want {
		t.Errorf("private data %q, want %q", got, want)
	}
	if a.RemoteAddr() != b.LocalAddr() || a.Remote().QPN != b.QP().QPN() || a.MTU() != b.MTU() || a.InitiatorDepth() != b.InitiatorDepth() {
		t.Errorf("%v and %v", a, b)
	}
	send(t, a, b)
	send(t, b, a)
}

// TestAgreement checks that the lower MTU counts, and no end issues more READs than the other serves.
func TestAgreement(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	small := w.config(1, verbs.QPTypeRC)
	small.MTU = verbs.MTU256
	a, b, err1, err2 := w.connect(w.config(0, verbs.QPTypeRC), small)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	closeLater(t, a)
	closeLater(t, b)
	for _, c := range []*Conn{a, b} {
		attr, err := c.QP().Query()
		if err != nil {
			t.Fatal(err)
		}
		if c.MTU() != verbs.MTU256 || attr.PathMTU != verbs.MTU256 {
			t.Errorf("MTU %d, the queue pair's %d", c.MTU().Bytes(), attr.PathMTU.Bytes())
		}
		if int(attr.MaxRDAtomic) != c.InitiatorDepth() || c.InitiatorDepth() < 2 {
			t.Errorf("%d READs, the queue pair's %d", c.InitiatorDepth(), attr.MaxRDAtomic)
		}
	}
	la, lb := a.Local(), b.Local()
	if la.psn == lb.psn || la.nonce == lb.nonce || la.Instance != lb.Instance || lb.answers != 0 || a.Remote().answers != la.nonce {
		t.Errorf("%+v and %+v", la, lb)
	}
}

// TestOptions checks that a queue pair has the options of its Config, and the access rights of its type.
func TestOptions(t *testing.T) {
	w := newWorld(t, devices["mlx5"])
	for kind, access := range map[verbs.QPType]verbs.Access{
		verbs.QPTypeRC: verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic,
		verbs.QPTypeUC: verbs.AccessRemoteWrite,
	} {
		cfg := w.config(0, kind)
		cfg.TOS, cfg.AckTimeout, cfg.RetryCount, cfg.MTU = 0x68, time.Second, 3, verbs.MTU4096 // the port has 1024
		a, b, err1, err2 := w.connect(cfg, w.config(1, kind))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		closeLater(t, a)
		closeLater(t, b)
		attr, err := a.QP().Query()
		if err != nil {
			t.Fatal(err)
		}
		if attr.Access != access || attr.AH.TrafficClass != 0x68 || a.Local().MTU != verbs.MTU1024 || attr.PathMTU != a.MTU() {
			t.Errorf("%v: access %v, traffic class %#x, MTU %d", kind, attr.Access, attr.AH.TrafficClass, a.Local().MTU.Bytes())
		}
		if kind == verbs.QPTypeRC && (attr.RetryCnt != 3 || attr.AckTimeout != 4096<<18*time.Nanosecond) {
			t.Errorf("%d retries after %v", attr.RetryCnt, attr.AckTimeout)
		}
	}
}

// TestReads checks that the end that serves fewer READs decides.
func TestReads(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	half, err := Offer(w.config(0, verbs.QPTypeRC))
	if err != nil {
		t.Fatal(err)
	}
	few, err := parse(half.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	few.endpoint.readsIn, few.endpoint.readsOut = 4, 8
	b, _, err := Answer(t.Context(), few.bytes(), w.config(1, verbs.QPTypeRC))
	if err != nil {
		t.Fatal(err)
	}
	attr, err := b.QP().Query()
	if err != nil {
		t.Fatal(err)
	}
	if b.InitiatorDepth() != 4 || attr.MaxRDAtomic != 4 || attr.MaxDestRDAtomic != 8 {
		t.Errorf("%d READs, the queue pair's %d and %d", b.InitiatorDepth(), attr.MaxRDAtomic, attr.MaxDestRDAtomic)
	}
	if err := errors.Join(half.Close(), b.Close()); err != nil {
		t.Error(err)
	}
}

// TestOtherSubnet checks that the path to a peer in another subnet of InfiniBand has the peer's GID, and a hop limit.
// Within the subnet, the LID suffices. Over RoCE, Linux sets the hop limit itself.
func TestOtherSubnet(t *testing.T) {
	w := newWorld(t, devices["InfiniBand"])
	half, err := Offer(w.config(0, verbs.QPTypeRC))
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, half)
	offer, err := parse(half.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []bool{false, true} {
		if other {
			offer.endpoint.GID[7]++
		}
		b, _, err := Answer(t.Context(), offer.bytes(), w.config(1, verbs.QPTypeRC))
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, b)
		attr, err := b.QP().Query()
		if err != nil {
			t.Fatal(err)
		}
		ah := attr.AH
		if ah.Global != other || !other && ah.DLID != offer.endpoint.LID || other && (ah.DGID != offer.endpoint.GID || ah.HopLimit != 64) {
			t.Errorf("other subnet %v: %+v", other, ah)
		}
	}
}

// TestBothDial checks that one of the two becomes the accepting side, over a stream without room.
func TestBothDial(t *testing.T) {
	for range 4 { // the nonces decide who
		w := newWorld(t, devices["rxe"])
		near, far := net.Pipe()
		a, b, err1, err2 := w.over(near, far, func(ctx context.Context) (*Conn, error) { return Dial(ctx, near, w.config(0, 0)) },
			func(ctx context.Context) (*Conn, error) { return Dial(ctx, far, w.config(1, 0)) })
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		closeLater(t, a)
		closeLater(t, b)
		checkConnected(t, a, b)
	}
}

// TestEnds checks that each way in which a connection ends is noticed by both sides, on their queue
// pairs, too.
func TestEnds(t *testing.T) {
	for name, end := range map[string]func(*Conn) error{
		"disconnect": (*Conn).Disconnect,
		"close":      (*Conn).Close,
		"stream":     func(c *Conn) error { return c.stream.Close() },
		"garbage":    func(c *Conn) error { return c.stream.send(&frame{kind: kindReady}) },
	} {
		for device, kind := range map[string]verbs.QPType{"mlx5": verbs.QPTypeRC, "efa": verbs.QPTypeSRD} {
			t.Run(name+"/"+device, inBubble(func(t *testing.T) {
				w := newWorld(t, devices[device])
				a, b := w.mustConnect(kind)
				if err := end(a); err != nil {
					t.Fatal(err)
				}
				<-b.Done()
				want := rdmacm.ErrDisconnected
				if name == "garbage" {
					want = ErrProtocol
				}
				if err := b.Err(); !errors.Is(err, want) {
					t.Error(err)
				}
				b.closing.Lock()
				clean := b.clean
				b.closing.Unlock()
				if clean != (name == "disconnect" || name == "close") {
					t.Errorf("the peer said good-bye: %v", clean)
				}
				var wcs [1]verbs.WC // the receive
				if n, err := b.RecvCQ().Wait(t.Context(), wcs[:]); n != 1 || wcs[0].Status != verbs.StatusWRFlushErr {
					t.Error(wcs, err)
				}
				if _, err := b.RecvCQ().Wait(t.Context(), wcs[:]); !errors.Is(err, want) {
					t.Errorf("a wait ends with %v", err)
				}
				if err := b.Disconnect(); !errors.Is(err, net.ErrClosed) {
					t.Errorf("disconnected twice: %v", err)
				}
				if err := b.Close(); err != nil {
					t.Error(err)
				}
				if err := b.Close(); !errors.Is(err, net.ErrClosed) {
					t.Errorf("closed twice: %v", err)
				}
			}))
		}
	}
}

// TestQueuePairFails checks that a work request that fails ends the connection on its side.
func TestQueuePairFails(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	a, _ := w.mustConnect(verbs.QPTypeRC)
	w.fabric.Host(0).Device(0).FailSend(0, verbs.StatusRetryExcErr)
	wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{regionOf(a).SGE(0, 1)}}
	if _, err := a.QP().PostSend([]verbs.SendWR{wr}); err != nil {
		t.Fatal(err)
	}
	var wcs [1]verbs.WC
	if _, err := a.SendCQ().Wait(t.Context(), wcs[:]); err != nil || wcs[0].Status != verbs.StatusRetryExcErr {
		t.Error(err, wcs)
	}
	<-a.Done()
	if err := a.Err(); !errors.Is(err, verbs.StatusRetryExcErr) || a.Explain(io.EOF) != err {
		t.Error(err)
	}
}

// TestDatagramFails checks that a work request of UD that fails does not end the connection.
func TestDatagramFails(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	a, _ := w.mustConnect(verbs.QPTypeUD)
	w.fabric.Host(0).Device(0).FailSend(0, verbs.StatusLocQPOpErr)
	wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{regionOf(a).SGE(0, 1)},
		AH: a.Peer().AH, RemoteQPN: a.Peer().QPN, RemoteQKey: a.Peer().QKey}
	if _, err := a.QP().PostSend([]verbs.SendWR{wr}); err != nil {
		t.Fatal(err)
	}
	var wcs [1]verbs.WC
	if _, err := a.SendCQ().Wait(t.Context(), wcs[:]); err != nil || wcs[0].Status != verbs.StatusLocQPOpErr {
		t.Error(err, wcs)
	}
	if err := a.Err(); err != nil {
		t.Error(err)
	}
}

// TestMismatch checks that ends that do not fit together say so, at both of them, and leave nothing.
func TestMismatch(t *testing.T) {
	for name, change := range map[string][2]func(*Config){
		"transport": {func(c *Config) { c.QP.Type = verbs.QPTypeUC }, func(c *Config) { c.QP.Type = verbs.QPTypeUD }},
		"family":    {func(c *Config) { c.GID = &uverbs.GIDChoice{IPv4: true} }, func(c *Config) { c.GID = &uverbs.GIDChoice{IPv6: true} }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, devices["mlx5"])
			a, b := w.config(0, 0), w.config(1, 0)
			change[0](a)
			change[1](b)
			_, _, dialErr, acceptErr := w.connect(a, b)
			if !errors.Is(dialErr, ErrRefused) || !strings.Contains(dialErr.Error(), ErrMismatch.Error()) {
				t.Error("dial:", dialErr)
			}
			if !errors.Is(acceptErr, ErrMismatch) {
				t.Error("accept:", acceptErr)
			}
		})
	}
}

// TestMismatchedGIDType checks that the error has both GIDs and their types.
func TestMismatchedGIDType(t *testing.T) {
	w := newWorld(t, devices["mlx5"])
	half, err := Offer(w.config(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	v1, err := parse(half.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	v1.endpoint.GIDType = verbs.GIDTypeRoCEv1
	_, _, err = Answer(t.Context(), v1.bytes(), w.config(1, 0))
	if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "RoCE v1") || !strings.Contains(err.Error(), "RoCE v2") {
		t.Error(err)
	}
	answer := *v1
	answer.kind, answer.endpoint.answers = kindAnswer, v1.endpoint.nonce
	if _, err = half.Connect(answer.bytes()); !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "RoCE v1") || !strings.Contains(err.Error(), "RoCE v2") {
		t.Error(err)
	}
	if _, err := half.Connect(answer.bytes()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("connected twice: %v", err)
	}
}

// TestFollowsGID checks that the accepting end chooses a GID like the peer's.
func TestFollowsGID(t *testing.T) {
	w := newWorld(t, devices["mlx5"])
	for _, choice := range []uverbs.GIDChoice{{IPv4: true}, {IPv6: true}} {
		a := w.config(0, 0)
		a.GID = &choice
		dialled, accepted, err1, err2 := w.connect(a, w.config(1, 0))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if l, r := dialled.Local(), dialled.Remote(); l.GIDType != r.GIDType || l.GID.Addr().Is4() != r.GID.Addr().Is4() {
			t.Errorf("%v (%v) and %v (%v)", l.GID, l.GIDType, r.GID, r.GIDType)
		}
		if err := errors.Join(dialled.Close(), accepted.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestAuthorize checks that no queue pair is created for a peer that is refused, and the peer does
// not learn why.
func TestAuthorize(t *testing.T) {
	secret := errors.New("not on the list")
	w := newWorld(t, devices["rxe"])
	b := w.config(1, 0)
	b.Prepare = func(*Conn) error { t.Error("there is a queue pair"); return nil }
	b.Authorize = func(_ context.Context, stream io.ReadWriteCloser, peer *Endpoint) error {
		if stream == nil || peer.QPN == 0 || len(peer.PrivateData) == 0 {
			t.Errorf("%v, %+v", stream, peer)
		}
		return secret
	}
	_, _, dialErr, acceptErr := w.connect(w.config(0, 0), b)
	if !errors.Is(acceptErr, secret) || !errors.Is(dialErr, ErrRefused) || strings.Contains(dialErr.Error(), "list") {
		t.Errorf("dial: %v, accept: %v", dialErr, acceptErr)
	}
	a := w.config(0, 0)
	a.Authorize = b.Authorize
	_, _, dialErr, acceptErr = w.connect(a, w.config(1, 0))
	if !errors.Is(dialErr, secret) || !errors.Is(acceptErr, ErrRefused) {
		t.Errorf("dial: %v, accept: %v", dialErr, acceptErr)
	}
}

// TestCanceledWhileAuthorizing checks that an attempt that ends while Authorize runs returns
// Authorize's error, and does not say that the peer has sent nothing.
func TestCanceledWhileAuthorizing(t *testing.T) {
	slow := errors.New("the directory does not answer")
	w := newWorld(t, devices["rxe"])
	ctx, cancel := context.WithCancel(t.Context())
	b := w.config(1, 0)
	b.Authorize = func(ctx context.Context, _ io.ReadWriteCloser, _ *Endpoint) error {
		cancel()
		<-ctx.Done()
		return slow
	}
	near, far := net.Pipe()
	_, _, _, err := w.over(near, far, func(ctx context.Context) (*Conn, error) { return Dial(ctx, near, w.config(0, 0)) },
		func(context.Context) (*Conn, error) { return Accept(ctx, far, b) })
	if !errors.Is(err, slow) || !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "should have sent") {
		t.Error(err)
	}
}

// TestDeadline checks that a silent peer costs no more than the deadline, and the stream is closed.
func TestDeadline(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	for name, try := range map[string]func(context.Context, io.ReadWriteCloser, *Config) (*Conn, error){"dial": Dial, "accept": Accept} {
		near, far := net.Pipe()
		go io.Copy(io.Discard, far)
		cfg := w.config(0, 0)
		cfg.Timeout = time.Nanosecond
		_, err := try(t.Context(), near, cfg)
		var timeout net.Error
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%s: %v", name, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		near, far = net.Pipe()
		cfg = w.config(0, 0)
		go func() { _, _ = far.Read(make([]byte, 1)); cancel() }()
		if name == "accept" {
			cancel()
		}
		if _, err := try(ctx, near, cfg); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := io.Copy(io.Discard, far); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

// TestConfig checks that bad options are refused at once, and the stream is closed.
func TestConfig(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	for name, change := range map[string]func(*Config){
		"PD":            func(c *Config) { c.PD = nil },
		"Type":          func(c *Config) { c.QP.Type = verbs.QPTypeRawPacket },
		"RecvCQEntries": func(c *Config) { c.RecvCQEntries = -1 },
		"RetryCount":    func(c *Config) { c.RetryCount = 8 },
		"AckTimeout":    func(c *Config) { c.AckTimeout = -1 },
		"MTU":           func(c *Config) { c.MTU = 9 },
		"PrivateData":   func(c *Config) { c.PrivateData = make([]byte, MaxPrivateData+1) },
	} {
		cfg := w.config(0, 0)
		change(cfg)
		near, _ := net.Pipe()
		_, err := Dial(t.Context(), near, cfg)
		if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := near.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s: the stream is open", name)
		}
		if _, err := Offer(cfg); err == nil {
			t.Errorf("%s: offered", name)
		}
		if _, _, err := Answer(t.Context(), nil, cfg); err == nil {
			t.Errorf("%s: answered", name)
		}
	}
	long := w.config(0, 0)
	long.Prepare = func(c *Conn) error { c.SetPrivateData(make([]byte, MaxPrivateData+1)); return nil }
	if _, err := Offer(long); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "private data") {
		t.Error(err)
	}
	if _, err := Dial(t.Context(), nil, nil); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("no stream to dial over: %v", err)
	}
	if _, err := Accept(t.Context(), nil, nil); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("no stream to accept: %v", err)
	}
	if _, err := Listen(nil, nil); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("no net.Listener: %v", err)
	}
}

// TestIWARP checks that the error on an iWARP device says what to use.
func TestIWARP(t *testing.T) {
	fabric := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.SIW})
	_, err := Offer(&Config{PD: openPD(t, fabric.Host(0))})
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "rdmacm") {
		t.Error(err)
	}
}

// TestPanic checks that nothing is left of an attempt in which a function of the program panics.
func TestPanic(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	for name, hook := range map[string]func(*Config){
		"Authorize": func(c *Config) {
			c.Authorize = func(context.Context, io.ReadWriteCloser, *Endpoint) error { panic("Authorize") }
		},
		"Prepare": func(c *Config) { c.Prepare = func(*Conn) error { panic("Prepare") } },
	} {
		cfg := w.config(1, 0)
		hook(cfg)
		near, far := net.Pipe()
		_, _, err, _ := w.over(near, far, func(ctx context.Context) (*Conn, error) { return Dial(ctx, near, w.config(0, 0)) },
			func(ctx context.Context) (_ *Conn, err error) {
				defer func() {
					if p := recover(); p != name {
						t.Errorf("%s: %v", name, p)
					}
				}()
				return Accept(ctx, far, cfg)
			})
		if err == nil {
			t.Errorf("%s: connected", name)
		}
		if left := w.fabric.Host(1).Device(0).Objects(); len(left) != 1 { // the protection domain
			t.Errorf("%s: left: %q", name, left)
		}
	}
}

// TestAttemptFails checks that whichever call of the kernel fails, nothing is left.
func TestAttemptFails(t *testing.T) {
	for _, call := range []rdmatest.Call{rdmatest.CallQueryPort, rdmatest.CallCreateChannel, rdmatest.CallCreateCQ, rdmatest.CallCreateQP, rdmatest.CallModifyQP} {
		for skip := range 3 {
			w := newWorld(t, devices["rxe"])
			for end := range 2 {
				w.fabric.Host(end).Device(0).Fail(call, skip, syscall.ENOMEM).Optional()
				a, b, err1, err2 := w.connect(w.config(0, 0), w.config(1, 0))
				if (err1 == nil) != (err2 == nil) {
					t.Errorf("%v: %v and %v", call, err1, err2)
				}
				if err1 == nil {
					if err := errors.Join(a.Close(), b.Close()); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}
}

// TestTLS connects over TLS, which both ends check before the queue pair may receive.
func TestTLS(t *testing.T) { inBubble(testTLS)(t) }

func testTLS(t *testing.T) {
	server, client := certificates(t)
	w := newWorld(t, devices["rxe"])
	near, far := net.Pipe()
	checked := func(_ context.Context, stream io.ReadWriteCloser, _ *Endpoint) error {
		if state := stream.(*tls.Conn).ConnectionState(); len(state.PeerCertificates) == 0 {
			return errors.New("no certificate")
		}
		return nil
	}
	configs := [2]*Config{w.config(0, 0), w.config(1, 0)}
	for _, cfg := range configs {
		cfg.Authorize = checked
	}
	a, b, err1, err2 := w.over(near, far, func(ctx context.Context) (*Conn, error) { return Dial(ctx, tls.Client(near, client), configs[0]) },
		func(ctx context.Context) (*Conn, error) { return Accept(ctx, tls.Server(far, server), configs[1]) })
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	closeLater(t, a)
	closeLater(t, b)
	checkConnected(t, a, b)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	<-b.Done()
	b.closing.Lock()
	clean := b.clean
	b.closing.Unlock()
	if !clean {
		t.Error(b.Err())
	}
}

// TestRecentNumbers checks that the number of a queue pair whose peer may still send is not used at
// once.
func TestRecentNumbers(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	numbers := recentQPNs{until: make(map[recentQPN]time.Time)}
	a, b := w.mustConnect(verbs.QPTypeRC)
	if err := a.stream.Close(); err != nil {
		t.Fatal(err)
	}
	<-b.Done()
	end := time.Now()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	recent.mu.Lock()
	until := recent.until[recentQPN{b.Device().Info().Name, b.local.QPN}]
	recent.mu.Unlock()
	if until.Before(end.Add(2 * time.Second)) { // 8 times 4 times 67 ms
		t.Errorf("the number is forgotten after %v", until.Sub(end))
	}
	cq, err := b.Device().CreateCQ(16, nil)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, cq)
	opts := &uverbs.QPOptions{SendCQ: cq, RecvCQ: cq}
	first, err := numbers.create(w.pds[1], opts)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, first)
	for next := range uint32(3) { // a device that counts
		numbers.add(b.Device().Info().Name, first.QPN()+1+next, time.Hour)
	}
	second, err := numbers.create(w.pds[1], opts)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, second)
	if numbers.has(second) {
		t.Errorf("queue pair %d after %d", second.QPN(), first.QPN())
	}
	numbers.add("rxe9", 7, -time.Hour)
	numbers.add("rxe9", 8, time.Hour)
	if !numbers.until[recentQPN{"rxe9", 7}].IsZero() {
		t.Error("old numbers are kept")
	}
	for n := range uint32(mostRecent + 9) {
		numbers.add("rxe9", 9+n, time.Hour)
	}
	if n := len(numbers.until); n > mostRecent {
		t.Errorf("%d numbers are kept", n)
	}
}

// TestForgottenNumbers checks that once both ends have said good-bye, the numbers of their queue
// pairs may be used again.
func TestForgottenNumbers(t *testing.T) { inBubble(testForgottenNumbers)(t) }

func testForgottenNumbers(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	a, b := w.mustConnect(verbs.QPTypeRC)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	recent.mu.Lock()
	if _, ok := recent.until[recentQPN{a.Device().Info().Name, a.local.QPN}]; !ok {
		t.Error("the number is forgotten too early")
	}
	recent.mu.Unlock()
	<-b.Done()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	waitUntil(t, func() bool {
		recent.mu.Lock()
		defer recent.mu.Unlock()
		_, of1 := recent.until[recentQPN{a.Device().Info().Name, a.local.QPN}]
		_, of2 := recent.until[recentQPN{b.Device().Info().Name, b.local.QPN}]
		return !of1 && !of2
	})
}

// certificates returns the configurations of a server and of a client that check each other.
func certificates(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"peer"}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	all := x509.NewCertPool()
	all.AddCert(leaf)
	own := []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}
	return &tls.Config{Certificates: own, ClientCAs: all, ClientAuth: tls.RequireAndVerifyClientCert},
		&tls.Config{Certificates: own, RootCAs: all, ServerName: "peer"}
}
