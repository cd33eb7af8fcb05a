package rdmacm

import (
	"errors"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
)

// PrepareQP chooses what the queue pair of one connection is made of. Its error ends the
// attempt, and Prepare does not run.
func TestPrepareQP(t *testing.T) {
	newWorld(t, aRXE)
	var prepared int
	var own *uverbs.CQ
	cfg := &Config{
		Prepare: func(c *Conn) error { prepared++; return nil },
		PrepareQP: func(c *Conn, o *uverbs.QPOptions) (err error) {
			if own, err = c.Device().CreateCQ(100, nil); err != nil {
				return err
			}
			c.Own(own)
			o.SendCQ, o.Cap.MaxSendWR = own, 100
			return nil
		},
	}
	c, err := DialAddrPort(t.Context(), addr4, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if c.SendCQ() != own || c.RecvCQ() == own || c.QP().Cap().MaxSendWR < 100 || c.ownSendCQ || prepared != 1 {
		t.Errorf("%+v, prepared %d times", c.QP().Cap(), prepared)
	}
	closeConn(t, c)
	cfg.PrepareQP = func(*Conn, *uverbs.QPOptions) error { return syscall.ENOBUFS }
	if _, err := DialAddrPort(t.Context(), addr4, cfg); !errors.Is(err, syscall.ENOBUFS) || prepared != 1 {
		t.Error(err, prepared)
	}
	if cfg.QP.SendCQ != nil || cfg.QP.Cap.MaxSendWR != 0 {
		t.Errorf("%+v", cfg.QP)
	}
}
