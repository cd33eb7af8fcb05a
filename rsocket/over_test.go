package rsocket

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
)

// TestWithoutConnectionManager checks that a connection over a stream is a net.Conn also where the
// kernel offers what gVisor's proxy passes on.
func TestWithoutConnectionManager(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		t.Run(kind.String(), func(t *testing.T) {
			f := newFabric(t, kind)
			d := f.Host(0).Device(0)
			struck := conntest.LikeGVisor(f.Fabric, d)
			f.streams()
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) { return f.pipe(Config{}) })
			if n := struck(); n == 0 { // for completion channels
				t.Error("no call was refused")
			}
		})
	}
}

// TestStrangersOver checks that a peer on a stream that does not speak rsocket, or that Authorize
// refuses, is refused, and Accept goes on to the next one.
func TestStrangersOver(t *testing.T) {
	f := newFabric(t, rdmatest.RXE).streams()
	refuse := true
	over := *f.over
	over.Authorize = func(context.Context, io.ReadWriteCloser, *oob.Endpoint) error {
		if refuse {
			return syscall.EACCES
		}
		return nil
	}
	p := conntest.NewPipes()
	l, err := new(ListenConfig).ListenOver(p, &over)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := acceptAndHold(l)
	if _, err := new(Dialer).DialOver(t.Context(), p.Dial(), f.over); !errors.Is(err, oob.ErrRefused) {
		t.Error(err)
	}
	refuse = false
	for _, private := range [][]byte{nil, []byte("hello"), make([]byte, helloSize)} {
		_, err := oob.Dial(t.Context(), p.Dial(), &oob.Config{PD: f.over.PD, PrivateData: private})
		if !errors.Is(err, oob.ErrRefused) {
			t.Errorf("%q: %v", private, err)
		}
	}
	junk := p.Dial()
	_, _ = junk.Write(bytes.Repeat([]byte("junk"), 100))
	_ = junk.Close()
	c, err := new(Dialer).DialOver(t.Context(), p.Dial(), f.over)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Close(), (<-accepted).Close(), l.Close()); err != nil {
		t.Error(err)
	}
	var op *net.OpError
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) || !errors.As(err, &op) || op.Op != "accept" {
		t.Error(err)
	}
	if l.Addr().String() != p.Addr().String() {
		t.Error(l.Addr())
	}
}

// TestClosedBeforeAcceptOver checks that what a peer has written can be read, also if the peer has left before Accept.
func TestClosedBeforeAcceptOver(t *testing.T) {
	f := newFabric(t, rdmatest.RXE).streams()
	l, err := f.listen(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := f.dial(t.Context(), l, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Write([]byte("the last word")); err != nil {
		t.Error(err)
	}
	if err := errors.Join(a.Close(), a.Shutdown(t.Context())); err != nil {
		t.Error(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(b); err != nil || string(got) != "the last word" {
		t.Errorf("%q, %v", got, err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestDialStrangerOver checks that a dialled peer on a stream that does not speak rsocket is refused.
func TestDialStrangerOver(t *testing.T) {
	f := newFabric(t, rdmatest.RXE).streams()
	near, far := net.Pipe()
	accepted := make(chan error, 1)
	go func() {
		c, err := oob.Accept(t.Context(), far, &oob.Config{PD: f.over.PD, PrivateData: []byte("some other protocol")})
		if err == nil {
			err = c.Close()
		}
		accepted <- err
	}()
	var op *net.OpError
	if _, err := new(Dialer).DialOver(t.Context(), near, f.over); !errors.Is(err, ErrProtocol) || !errors.Is(err, rdmacm.ErrOtherProtocol) || !errors.As(err, &op) || op.Op != "dial" {
		t.Error(err)
	}
	if err := <-accepted; err != nil {
		t.Error(err)
	}
}

// TestAcceptTemporaryOver checks that a shortage of this machine is a temporary error of Accept.
func TestAcceptTemporaryOver(t *testing.T) {
	f := newFabric(t, rdmatest.RXE).streams()
	l, err := f.listen(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f.Host(0).Device(0).Fail(rdmatest.CallRegMR, 2, syscall.ENOMEM) // the dialling side makes two first
	dialled := make(chan error, 1)
	go func() {
		_, err := f.dial(t.Context(), l, Config{})
		dialled <- err
	}()
	var op *net.OpError
	if _, err = l.Accept(); !errors.Is(err, syscall.ENOMEM) || !errors.As(err, &op) || op.Op != "accept" || !op.Temporary() {
		t.Error(err)
	}
	if err := <-dialled; !errors.Is(err, oob.ErrRefused) {
		t.Error(err)
	}
}

// TestRefusedOver checks that bad options are refused at once, and the stream is closed.
func TestRefusedOver(t *testing.T) {
	f := newFabric(t, rdmatest.RXE).streams()
	iwarp := newFabric(t, rdmatest.SIW).streams()
	for name, c := range map[string]struct {
		cfg  Config
		over *oob.Config
		want error
		text string
	}{
		"no protection domain": {Config{}, nil, syscall.EINVAL, "Config.PD is nil"},
		"queue":                {Config{SendQueue: 15}, f.over, syscall.EINVAL, ""},
		"transport":            {Config{TransportOptions: rdmacm.TransportOptions{RetryCount: -1}}, f.over, syscall.EINVAL, "RetryCount"},
		"iWARP":                {Config{}, iwarp.over, errors.ErrUnsupported, "use package rdmacm"},
	} {
		near, far := net.Pipe()
		var op *net.OpError
		_, err := (&Dialer{Config: c.cfg}).DialOver(t.Context(), near, c.over)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || !errors.As(err, &op) || op.Op != "dial" {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := far.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%s: the stream is open: %v", name, err)
		}
		l := conntest.NewPipes()
		if _, err := (&ListenConfig{Config: c.cfg}).ListenOver(l, c.over); !errors.Is(err, c.want) || !errors.As(err, &op) || op.Op != "listen" {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: it listens: %v", name, err)
		}
	}
	_, far := net.Pipe()
	var op *net.OpError
	if _, err := (&Dialer{Timeout: time.Nanosecond}).DialOver(t.Context(), far, f.over); !errors.As(err, &op) || !op.Timeout() {
		t.Error(err)
	}
}
