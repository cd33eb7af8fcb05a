package rdmacm_test

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
)

// TestTraceRefused checks that both ends' Traces have the reason for which a connection was refused.
func TestTraceRefused(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.RXE})
	errNo := errors.New("not this one")
	refused, dialled := make(chan error, 1), make(chan error, 1)
	l, err := (&rdmacm.ListenConfig{Config: rdmacm.Config{
		Prepare:          func(*rdmacm.Conn) error { return errNo },
		TransportOptions: rdmacm.TransportOptions{Trace: &rdmacm.Trace{Refused: func(_, _ netip.AddrPort, err error) { refused <- err }}},
	}}).Listen(t.Context(), f.Host(0).Addr()+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { _, _ = l.Accept(t.Context()) }()
	var d rdmacm.Dialer
	d.Trace = &rdmacm.Trace{DialDone: func(_ netip.AddrPort, err error) { dialled <- err }}
	var rejected *rdmacm.RejectedError
	if _, err := d.Dial(t.Context(), l.Addr().String()); !errors.As(err, &rejected) {
		t.Error(err)
	}
	if err := <-dialled; !errors.As(err, &rejected) {
		t.Error(err)
	}
	if err := <-refused; !errors.Is(err, errNo) {
		t.Error(err)
	}
}

// TestTraceClosed checks that the Trace has the requests that Close rejects.
func TestTraceClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.RXE})
		refused, dialled := make(chan error, 1), make(chan error, 1)
		l, err := (&rdmacm.ListenConfig{Config: rdmacm.Config{
			TransportOptions: rdmacm.TransportOptions{Trace: &rdmacm.Trace{Refused: func(_, _ netip.AddrPort, err error) { refused <- err }}},
		}}).Listen(t.Context(), f.Host(0).Addr()+":0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := rdmacm.Dial(t.Context(), l.Addr().String())
			dialled <- err
		}()
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		select {
		case err := <-refused:
			if !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		default:
			t.Error("nothing is refused")
		}
		if err := <-dialled; err == nil {
			t.Error("the dial succeeded")
		}
	})
}
