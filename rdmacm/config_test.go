package rdmacm

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/qpstate"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// All functions that take a Config return an error that names an invalid field.
func TestConfigRefused(t *testing.T) {
	for want, cfg := range map[string]*Config{
		"Config.RecvCQEntries is negative": {RecvCQEntries: -1},
		"Config.QP.SRQ needs Config.PD":    {QP: uverbs.QPOptions{SRQ: new(uverbs.SRQ)}},
		"Config.QP.Type is XRC_INI":        {QP: uverbs.QPOptions{Type: verbs.QPTypeXRCInitiator}},
		"Config.RNRTimer is negative":      {RNRTimer: -1},
		"Config.RNRRetryCount is above":    {RNRRetryCount: 8},
		"Config.RNRTimer above 655.36ms":   {RNRTimer: time.Second},
	} {
		w := newWorld(t, aSIW)
		l, r := w.mustAsk(nil)
		for who, do := range map[string]func() error{
			"Dial":   func() error { _, err := dialAddr(t.Context(), addr4, cfg); return err },
			"Listen": func() error { _, err := listenOn("10.1.2.3:2", cfg); return err },
			"OpenUD": func() error { _, err := OpenUD(local4, cfg); return err },
			"Accept": func() error { _, err := r.Accept(t.Context(), cfg); return err },
		} {
			if err := do(); !errors.Is(err, syscall.EINVAL) && !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", who, err, want)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		w.empty()
	}
}

// Each invalid field of a Dialer or a ListenConfig is named.
func TestOptionsRefused(t *testing.T) {
	for want, d := range map[string]*Dialer{
		"Dialer.Timeout is negative": {Timeout: -1}, "Dialer.FallbackDelay is negative": {FallbackDelay: -1},
		"Dialer.ResolveTimeout is negative": {ResolveTimeout: -1},
		"Config.AckTimeout is negative":     {Config: Config{TransportOptions: TransportOptions{AckTimeout: -1}}},
		"Config.AckTimeout is too long":     {Config: Config{TransportOptions: TransportOptions{AckTimeout: qpstate.MaxAckTimeout + 1}}},
	} {
		if _, err := d.Dial(t.Context(), "10.1.2.3:1"); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for want, lc := range map[string]*ListenConfig{
		"ListenConfig.Backlog is negative": {Backlog: -1}, "ListenConfig.AcceptTimeout is negative": {AcceptTimeout: -1},
		"ListenConfig.ConfirmTimeout is negative": {ConfirmTimeout: -1},
	} {
		if _, err := lc.Listen(t.Context(), "10.1.2.3:1"); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestAckTimeout refuses timeouts that no queue pair has.
func TestAckTimeout(t *testing.T) {
	for _, d := range []time.Duration{-1, qpstate.MaxAckTimeout + 1} {
		if err := new(ID).SetAckTimeout(d); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%v: %v", d, err)
		}
	}
}

// sharedCQ is a CQ of the caller's, on a device of the caller's.
func (w *world) sharedCQ() (cq *uverbs.CQ, closeAll func()) {
	w.t.Helper()
	dev, err := uverbs.OpenIndex(w.host.index, hostGUID)
	if err != nil {
		w.t.Fatal(err)
	}
	channel, err := dev.CreateCompChannel()
	if err != nil {
		w.t.Fatal(err)
	}
	if cq, err = dev.CreateCQ(64, &uverbs.CQOptions{Channel: channel}); err != nil {
		w.t.Fatal(err)
	}
	return cq, func() {
		if err := errors.Join(cq.Close(), channel.Close(), dev.Close()); err != nil {
			w.t.Error(err)
		}
	}
}

// A CQ of the caller's says on which device the connection's own protection domain
// belongs.
func TestConfigCQWithoutPD(t *testing.T) {
	for name, options := range map[string]func(*uverbs.CQ) uverbs.QPOptions{
		"SendCQ": func(cq *uverbs.CQ) uverbs.QPOptions { return uverbs.QPOptions{SendCQ: cq} },
		"RecvCQ": func(cq *uverbs.CQ) uverbs.QPOptions { return uverbs.QPOptions{RecvCQ: cq} },
		"both":   func(cq *uverbs.CQ) uverbs.QPOptions { return uverbs.QPOptions{SendCQ: cq, RecvCQ: cq} },
	} {
		w := newWorld(t, aSIW)
		cq, closeAll := w.sharedCQ()
		c, err := dialAddr(t.Context(), addr4, &Config{QP: options(cq)})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if c.Device() != cq.Device() {
			t.Errorf("%s: on another device", name)
		}
		closeConn(t, c)
		closeAll()
		w.empty()
	}
}

// A CQ of another device than the connection's is named as the reason.
func TestConfigCQOfAnotherDevice(t *testing.T) {
	other := newWorld(t, uverbs.DeviceInfo{Name: "siw1", Driver: verbs.DriverSIW, ABI: 1})
	cq, closeAll := other.sharedCQ()
	w := newWorld(t, aSIW)
	_, err := dialAddr(context.Background(), addr4, &Config{QP: uverbs.QPOptions{SendCQ: cq}})
	if !errors.Is(err, syscall.EXDEV) || !strings.Contains(err.Error(), "use the Config's PD or CQ on") {
		t.Error(err)
	}
	closeAll()
	w.empty()
}

// A small message goes inline without a word in the Config, and one that asks for more
// gets more.
func TestConfigInline(t *testing.T) {
	for _, info := range []uverbs.DeviceInfo{aSIW, aRXE} {
		for want, cfg := range map[int]*Config{48: nil, 80: {QP: uverbs.QPOptions{Cap: verbs.QPCap{MaxInline: 80}}}} {
			w := newWorld(t, info)
			c, err := dialAddr(t.Context(), addr4, cfg)
			if err != nil {
				t.Fatalf("%s: %v", info.Name, err)
			}
			hello := verbs.SendWR{Opcode: verbs.OpSend, Inline: make([]byte, want)}
			if _, err := c.QP().PostSend([]verbs.SendWR{hello}); int(c.QP().Cap().MaxInline) < want || errors.Is(err, verbs.ErrInvalidWR) {
				t.Errorf("%s: %d bytes of %+v: %v", info.Name, want, c.QP().Cap(), err)
			}
			closeConn(t, c)
			w.empty()
		}
	}
}

// A panic in Prepare leaves nothing behind, and the caller of Dial, Accept or OpenUD sees it.
func TestPreparePanics(t *testing.T) {
	cfg := &Config{Prepare: func(*Conn) error { panic("no") }}
	for name, call := range map[string]func(func(*Config) *Listener){
		"dial":   func(func(*Config) *Listener) { _, _ = dialAddr(t.Context(), addr4, cfg) },
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
				if l, err = listenOn("10.1.2.3:1", cfg); err != nil {
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

// PrepareQP changes the options of one connection's queue pair. Its error ends the
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
	c, err := dialAddr(t.Context(), addr4, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if c.SendCQ() != own || c.RecvCQ() == own || c.QP().Cap().MaxSendWR < 100 || c.ownSendCQ || prepared != 1 {
		t.Errorf("%+v, prepared %d times", c.QP().Cap(), prepared)
	}
	closeConn(t, c)
	cfg.PrepareQP = func(*Conn, *uverbs.QPOptions) error { return syscall.ENOBUFS }
	if _, err := dialAddr(t.Context(), addr4, cfg); !errors.Is(err, syscall.ENOBUFS) || prepared != 1 {
		t.Error(err, prepared)
	}
	if cfg.QP.SendCQ != nil || cfg.QP.Cap.MaxSendWR != 0 {
		t.Errorf("%+v", cfg.QP)
	}
}

// Private data that Prepare sets goes to the peer instead of the Config's, which other
// connections share and nobody changes.
func TestSetPrivateData(t *testing.T) {
	w := newWorld(t, aRXE)
	cfg := &Config{PrivateData: []byte("of all"), Prepare: func(c *Conn) error {
		c.SetPrivateData([]byte("of this one"))
		return nil
	}}
	for _, want := range []string{"of this one", "of all"} {
		c, err := dialAddr(t.Context(), addr4, cfg)
		if err != nil {
			t.Fatal(err)
		}
		p := body[abi.RdmaUcmConnect](w.cms[0], abi.RDMA_USER_CM_CMD_CONNECT).ConnParam
		if got := string(p.PrivateData[:p.PrivateDataLen]); got != want {
			t.Errorf("%q went out, want %q", got, want)
		}
		closeConn(t, c)
		w.empty()
		cfg.Prepare = nil
	}
	if string(cfg.PrivateData) != "of all" {
		t.Errorf("%q", cfg.PrivateData)
	}
}
