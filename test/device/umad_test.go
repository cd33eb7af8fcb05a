//go:build vm

package device

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/ib/umad"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/verbs"
)

// openMAD opens the rxe port, which has management datagrams of all classes but subnet management.
func openMAD(t *testing.T) (mad.Port, mad.PortAttr) {
	t.Helper()
	kit.RxeFabric(t)
	kit.Sh(t, "modprobe ib_umad")
	kit.NoLeak(t)
	p := kit.Must(umad.Open(kit.RxeLink, 1))(t)
	t.Cleanup(func() {
		if err := p.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return p, kit.Must(p.Attr())(t)
}

// toSelf is the address of the port's own GSI: RoCE needs a GRH. Its GID is that of an IPv6 address.
// Behind IPv4 addresses Linux finds no request of a response: it compares the GID with the place where
// an IPv6 header would have the destination.
func toSelf(t *testing.T) mad.Addr {
	t.Helper()
	kit.RxeFabric(t)
	d := kit.OpenRxeLink(t, kit.RxeLink, kit.RxeIPv6)
	return mad.Addr{QPN: 1, QKey: mad.QKeyGSI, GRH: &mad.GRH{GID: d.GID.GID, GIDIndex: uint8(d.GID.Index), HopLimit: 64}}
}

func TestUMADPort(t *testing.T) {
	p, attr := openMAD(t)
	t.Logf("%+v", attr)
	if attr.LinkLayer != "Ethernet" || attr.State != verbs.PortActive || attr.NodeGUID == 0 || len(attr.GIDs) == 0 || len(attr.PKeys) == 0 {
		t.Errorf("%+v", attr)
	}
	for _, class := range []mad.Class{mad.ClassLID, mad.ClassDirected} {
		if _, err := p.Register(mad.AgentConfig{Class: class}); !errors.Is(err, mad.ErrNoSMI) || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v: %v", class, err)
		}
	}
	if _, err := p.OpenSM(); !errors.Is(err, mad.ErrNoSMI) {
		t.Errorf("OpenSM: %v", err)
	}
}

// TestUMADAgents sends between two agents of the port, by the kernel's GSI.
func TestUMADAgents(t *testing.T) {
	p, _ := openMAD(t)
	self := toSelf(t)
	client := fabric.NewClient(p, nil)
	served := make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	go func() { served <- fabric.ServePing(ctx, p, mad.OUIOpenIB, "guest") }()
	var host string
	var err error
	for range 20 {
		// The responder may not have registered yet.
		if host, _, err = client.Ping(t.Context(), self, mad.OUIOpenIB); err == nil {
			break
		}
	}
	if err != nil || host != "guest" {
		t.Fatalf("%q, %v", host, err)
	}
	methods := mad.Methods(mad.Get)
	if _, err := p.Register(mad.AgentConfig{Class: mad.ClassPing, OUI: mad.OUIOpenIB, Methods: methods}); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("methods that another agent receives: %v", err)
	}
	for range 100 {
		if host, _, err := client.Ping(t.Context(), self, mad.OUIOpenIB); err != nil || host != "guest" {
			t.Fatalf("%q, %v", host, err)
		}
	}
	stop()
	if err := <-served; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}

// TestUMADTimeout asks a class that nobody answers. Linux 6.12 itself answers Get and Set as not
// supported, and 7.2 drops them.
func TestUMADTimeout(t *testing.T) {
	p, _ := openMAD(t)
	a := kit.Must(p.Register(mad.AgentConfig{Class: mad.ClassPerf}))(t)
	req := &mad.Message{Addr: toSelf(t), Data: mad.New(mad.ClassPerf, mad.Get, mad.AttrClassPortInfo, 0)}
	if m, err := a.Do(t.Context(), req, mad.Retry{}); err == nil && !errors.Is(m.Data.Err(), errors.ErrUnsupported) || err != nil && !errors.Is(err, mad.ErrTimeout) {
		t.Errorf("%v, %v", m, err)
	}
	req.Data.SetMethod(mad.Report)
	if m, err := a.Do(t.Context(), req, mad.Retry{Timeout: 50 * time.Millisecond, Tries: 2}); !errors.Is(err, mad.ErrTimeout) {
		t.Errorf("%v, %v", m, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := a.Do(ctx, req, mad.Retry{Timeout: time.Hour})
		failed <- err
	}()
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	go func() {
		_, err := a.Do(t.Context(), req, mad.Retry{Timeout: time.Hour})
		failed <- err
	}()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := <-failed; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// TestUMADLong sends messages that the kernel cuts into segments. A port whose limit is lower receives
// the messages that follow.
func TestUMADLong(t *testing.T) {
	p, _ := openMAD(t)
	low := kit.Must(umad.Config{MaxMessage: 16 << 10}.Open(kit.RxeLink, 1))(t)
	defer low.Close()
	config := mad.AgentConfig{Class: mad.ClassSysStat, OUI: mad.OUIOpenIB, RMPP: true}
	client := kit.Must(p.Register(config))(t)
	config.Methods = mad.Methods(mad.Get)
	server := kit.Must(p.Register(config))(t)
	payload := bytes.Repeat([]byte("0123456789abcdef"), 3000)
	// serve answers one request.
	done := make(chan error, 1)
	serve := func(payload []byte) {
		m, err := server.Receive(t.Context())
		if err == nil {
			answer := append(mad.MAD(nil), m.Data[:40]...)
			answer = append(answer, payload...)
			answer.SetMethod(mad.GetResp)
			err = server.Send(t.Context(), &mad.Message{Addr: m.Addr, Data: answer})
		}
		done <- err
	}
	config.Methods = mad.MethodMask{}
	limited := kit.Must(low.Register(config))(t)
	ask := func(a mad.Agent, payload []byte) (*mad.Message, error) {
		t.Helper()
		go serve(payload)
		req := mad.New(config.Class, mad.Get, 1, 0)
		req.SetOUI(config.OUI)
		m, err := a.Do(t.Context(), &mad.Message{Addr: toSelf(t), Data: req}, mad.Retry{Timeout: 10 * time.Second})
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		return m, err
	}
	m, err := ask(client, payload)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(m.Data.Data(), payload) {
		t.Errorf("%d bytes came, of %d", len(m.Data), 40+len(payload))
	}
	var tooLong *umad.TooLongError
	if _, err := ask(limited, payload); !errors.As(err, &tooLong) || tooLong.Size < int64(len(payload)) {
		t.Errorf("beyond the limit: %v", err)
	}
	if m, err := ask(limited, payload[:8<<10]); err != nil || !bytes.HasPrefix(m.Data.Data(), payload[:8<<10]) {
		t.Errorf("after a message beyond the limit: %v", err)
	}
}

// TestUMADRemoved removes the device under a waiting agent.
func TestUMADRemoved(t *testing.T) {
	p, _ := openMAD(t)
	a := kit.Must(p.Register(mad.AgentConfig{Class: mad.ClassPing, OUI: mad.OUIOpenIB, Methods: mad.Methods(mad.Get)}))(t)
	failed := make(chan error)
	go func() {
		_, err := a.Receive(t.Context())
		failed <- err
	}()
	kit.NoRxeFabric(t)
	if _, err := umad.Open(kit.RxeLink, 1); !errors.Is(err, verbs.ErrNoDevice) {
		t.Errorf("open: %v", err)
	}
	if _, err := p.Register(mad.AgentConfig{Class: mad.ClassPerf}); err == nil {
		t.Error("a removed device has an agent")
	} else {
		t.Log(err)
	}
	select {
	case err := <-failed:
		t.Log(err)
	case <-time.After(time.Second):
		t.Log("Receive goes on waiting, as the kernel tells nothing")
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := <-failed; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
}

// TestUMADMissingNode removes the node, as a container without it has none.
func TestUMADMissingNode(t *testing.T) {
	openMAD(t)
	const node = "/dev/infiniband/umad0"
	if err := os.Rename(node, node+".hidden"); err != nil {
		t.Fatal(err)
	}
	_, err := umad.Open(kit.RxeLink, 1)
	if err := os.Rename(node+".hidden", node); err != nil {
		t.Fatal(err)
	}
	if want := "open " + node + " on " + kit.RxeLink + ": no such file or directory: the device exists without its node: a container needs --device=" + node; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}
