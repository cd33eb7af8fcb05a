//go:build vm

package test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
)

// TestCMPrivateData holds siw's limit for each message: what is within it arrives
// as it is, what is beyond it is refused here, and not by the peer's kernel.
func TestCMPrivateData(t *testing.T) {
	const limit = 251
	cmLink(t, "siw")
	l := must(rdmacm.Listen("10.78.0.1:0"))(t)
	closeLater(t, l)
	data := bytes.Repeat([]byte("private"), 40)
	tooLong := func(err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "private data too long (252 bytes given, 251 allowed)") {
			t.Error(err)
		}
	}
	dial := func(private []byte) (*rdmacm.Conn, error) {
		return (&rdmacm.Dialer{Config: rdmacm.Config{PrivateData: private}}).Dial(t.Context(), l.Addr().String())
	}
	// serve answers one request.
	serve := func(answer func(*rdmacm.Request)) chan struct{} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			r, err := l.Next(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			answer(r)
		}()
		return done
	}

	_, err := dial(data[:limit+1])
	tooLong(err)

	accepted := serve(func(r *rdmacm.Request) {
		if !bytes.Equal(r.PrivateData, data[:limit]) {
			t.Errorf("the request has %q", r.PrivateData)
		}
		c, err := r.Accept(t.Context(), &rdmacm.Config{PrivateData: data[:limit]})
		if err != nil {
			t.Error(err)
			return
		}
		<-c.Done()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	c := must(dial(data[:limit]))(t)
	if !bytes.Equal(c.PrivateData(), data[:limit]) {
		t.Errorf("the answer has %q", c.PrivateData())
	}
	ok(t, c.Close())
	<-accepted

	refused := serve(func(r *rdmacm.Request) {
		_, err := r.Accept(t.Context(), &rdmacm.Config{PrivateData: data[:limit+1]})
		tooLong(err)
	})
	var rejected *rdmacm.RejectedError
	if _, err := dial(nil); !errors.As(err, &rejected) {
		t.Error(err)
	}
	<-refused

	refused = serve(func(r *rdmacm.Request) {
		if err := r.Reject(data[:limit]); err != nil {
			t.Error(err)
		}
	})
	if _, err := dial(nil); !errors.As(err, &rejected) || !bytes.Equal(rejected.PrivateData, data[:limit]) {
		t.Error(err)
	}
	<-refused

	refused = serve(func(r *rdmacm.Request) { tooLong(r.Reject(data[:limit+1])) })
	if _, err := dial(nil); !errors.As(err, &rejected) {
		t.Error(err)
	}
	<-refused
}
