package rdmacm

import (
	"errors"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
)

// A panic in Prepare leaves nothing behind, and the caller of Dial, Accept or OpenUD sees it.
func TestPreparePanics(t *testing.T) {
	cfg := &Config{Prepare: func(*Conn) error { panic("no") }}
	for name, call := range map[string]func(func(*Config) *Listener){
		"dial":   func(func(*Config) *Listener) { _, _ = DialAddrPort(t.Context(), addr4, cfg) },
		"UD":     func(func(*Config) *Listener) { _, _ = OpenUD(local4, cfg) },
		"accept": func(listen func(*Config) *Listener) { _, _ = listen(cfg).Accept(t.Context()) },
		"request": func(listen func(*Config) *Listener) {
			r, err := listen(nil).Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = r.Accept(t.Context(), cfg)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, aRXE)
			var l *Listener
			listen := func(cfg *Config) *Listener {
				var err error
				if l, err = Listen("10.1.2.3:1", cfg); err != nil {
					t.Fatal(err)
				}
				w.ask(50)
				return l
			}
			func() {
				defer func() {
					if p := recover(); p != "no" {
						t.Error("recovers", p)
					}
				}()
				call(listen)
			}()
			if l != nil {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}
			w.empty()
		})
	}
}

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
