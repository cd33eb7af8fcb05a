package rdmacm

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// mustAsk has a request come in at a fresh listener of the world.
func (w *world) mustAsk(cfg *Config) (*Listener, *Request) {
	w.t.Helper()
	l, err := listenOn("10.1.2.3:1", cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	sendRequest(w.cms[len(w.cms)-1], 1, 50)
	r, err := l.Next(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return l, r
}

func TestAcceptOn(t *testing.T) {
	w := newDatagramWorld(t)
	c := w.openUD()
	l, r := w.mustAsk(&udConfig)
	if err := r.AcceptOn(c, []byte("me")); err != nil {
		t.Error(err)
	}
	k := w.cms[1]
	if b := body[abi.RdmaUcmAccept](k, abi.RDMA_USER_CM_CMD_ACCEPT); b.Id != 50 || b.ConnParam.QpNum != c.QP().QPN() || b.ConnParam.PrivateDataLen != 2 {
		t.Errorf("%+v", b)
	}
	if b := body[abi.RdmaUcmDestroyId](k, abi.RDMA_USER_CM_CMD_DESTROY_ID); b.Id != 50 {
		t.Errorf("%+v", b)
	}
	if err := r.AcceptOn(c, nil); !errors.Is(err, net.ErrClosed) {
		t.Error("second answer:", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	closeConn(t, c)
	w.empty()
}

// A request that can't be answered so is rejected.
func TestAcceptOnFails(t *testing.T) {
	tests := []struct {
		name string
		do   func(*world, *Request, *Conn) error
		cfg  *Config
		want error
	}{
		{"a connection", func(_ *world, r *Request, c *Conn) error { return r.AcceptOn(c, nil) }, nil, syscall.EINVAL},
		{"closed", func(w *world, r *Request, c *Conn) error {
			closeConn(w.t, c)
			return r.AcceptOn(c, nil)
		}, &udConfig, net.ErrClosed},
		{"too long", func(_ *world, r *Request, c *Conn) error { return r.AcceptOn(c, make([]byte, 137)) }, &udConfig, errPrivateData},
		{"another device", func(_ *world, r *Request, c *Conn) error {
			r.NodeGUID = 99
			return r.AcceptOn(c, nil)
		}, &udConfig, syscall.EXDEV},
		{"the kernel's no", func(w *world, r *Request, c *Conn) error {
			w.fail(abi.RDMA_USER_CM_CMD_ACCEPT, syscall.ENOTCONN)
			return r.AcceptOn(c, nil)
		}, &udConfig, syscall.ENOTCONN},
	}
	for _, test := range tests {
		w := newDatagramWorld(t)
		c := w.openUD()
		l, r := w.mustAsk(test.cfg)
		if err := test.do(w, r, c); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
		if n := w.cms[1].count(abi.RDMA_USER_CM_CMD_REJECT); n != 1 {
			t.Errorf("%s: rejected %d times", test.name, n)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if test.want != net.ErrClosed {
			closeConn(t, c)
		}
		w.empty()
	}
}

// A datagram request gets a datagram queue pair despite the type in its Config, and its
// Conn doesn't wait for a confirmation that never comes.
func TestAcceptDatagram(t *testing.T) {
	w := newDatagramWorld(t)
	l, r := w.mustAsk(&udConfig)
	c, err := r.Accept(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.QP().Type() != verbs.QPTypeUD || c.Peer() != nil {
		t.Error(c.QP().Type(), c.Peer())
	}
	if b := body[abi.RdmaUcmAccept](w.cms[0], abi.RDMA_USER_CM_CMD_ACCEPT); b.ConnParam.QpNum != c.QP().QPN() || b.ConnParam.Valid != 1 {
		t.Errorf("%+v", b)
	}
	closeConn(t, c)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	w.empty()
}
