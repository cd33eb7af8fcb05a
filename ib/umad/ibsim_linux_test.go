package umad_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/ib/umad"
	"github.com/goverbs/goverbs/internal/ibsimtest"
)

const twoSwitches = `
Switch	4 "S1"
[1]	"H1"[1]
[2]	"S2"[2]
[3]	"H3"[1]

Switch	4 "S2"
[1]	"H2"[1]
[2]	"S1"[2]

Hca	2 "H1"
[1]	"S1"[1]

Hca	2 "H2"
[1]	"S2"[1]

Hca	2 "H3"
[1]	"S1"[3]
`

func open(t *testing.T, c umad.IBSim) mad.Port {
	t.Helper()
	p, err := umad.OpenIBSim(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return p
}

func register(t *testing.T, p mad.Port, c mad.AgentConfig) mad.Agent {
	t.Helper()
	a, err := p.Register(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestIBSim(t *testing.T) {
	sim := ibsimtest.Start(t, twoSwitches)
	sim.OpenSM(t, "H1")
	p := open(t, sim.Config("H2"))
	attr, err := p.Attr()
	if err != nil || attr.LID == 0 || attr.SMLID == 0 || attr.NodeType != mad.NodeCA || attr.PortGUID == 0 || len(attr.PKeys) == 0 || attr.PKeys[0] != 0xffff {
		t.Fatalf("%+v, %v", attr, err)
	}
	t.Logf("%+v", attr)
	dr := register(t, p, mad.AgentConfig{Class: mad.ClassDirected})
	lid := register(t, p, mad.AgentConfig{Class: mad.ClassLID})
	sa := register(t, p, mad.AgentConfig{Class: mad.ClassSA})
	t.Run("directed", func(t *testing.T) {
		for hops, want := range map[string]mad.NodeType{"0": mad.NodeCA, "0,1": mad.NodeSwitch, "0,1,2": mad.NodeSwitch, "0,1,2,1": mad.NodeCA} {
			r, err := mad.ParseRoute(hops)
			if err != nil {
				t.Fatal(err)
			}
			m, err := dr.Do(t.Context(), r.SMP(mad.Get, mad.AttrNodeInfo, 0, 0), mad.Retry{})
			if err != nil {
				t.Fatal(err)
			}
			var n mad.NodeInfo
			if err := errors.Join(m.Data.Err(), mad.Unmarshal(m.Data.Data(), &n)); err != nil || n.Type != want {
				t.Errorf("%v: %+v, %v", r, n, err)
			}
		}
	})
	t.Run("no link", func(t *testing.T) {
		_, err := dr.Do(t.Context(), mad.Directed(1, 4).SMP(mad.Get, mad.AttrNodeInfo, 0, 0), mad.Retry{})
		var timeout interface{ Timeout() bool }
		if !errors.Is(err, mad.ErrTimeout) || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%v", err)
		}
	})
	t.Run("concurrent", func(t *testing.T) {
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 100 {
					m, err := lid.Do(t.Context(), mad.ByLID(attr.SMLID).SMP(mad.Get, mad.AttrNodeInfo, 0, 0), mad.Retry{})
					if err != nil || m.Data.Err() != nil || m.Addr.LID != attr.SMLID {
						t.Errorf("%+v, %v", m, err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
	t.Run("SA", func(t *testing.T) {
		q := mad.New(mad.ClassSA, mad.Get, mad.AttrNodeRecord, 0)
		q.SetComponentMask(mad.MaskLID)
		if err := mad.Marshal(q.Data(), &mad.NodeRecord{LID: attr.LID}); err != nil {
			t.Fatal(err)
		}
		m, err := sa.Do(t.Context(), &mad.Message{Addr: mad.Addr{LID: attr.SMLID, QPN: 1, QKey: mad.QKeyGSI}, Data: q}, mad.Retry{})
		if err != nil || m.Data.Err() != nil {
			t.Fatalf("%v, %v", m, err)
		}
		var r mad.NodeRecord
		if err := mad.Unmarshal(m.Data.Data(), &r); err != nil || r.LID != attr.LID || r.NodeInfo.PortGUID != attr.PortGUID {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := dr.Do(ctx, mad.Directed().SMP(mad.Get, mad.AttrNodeInfo, 0, 0), mad.Retry{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
	t.Run("closed", func(t *testing.T) {
		if err := dr.Close(); err != nil {
			t.Fatal(err)
		}
		if err := dr.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("second Close: %v", err)
		}
		if _, err := dr.Do(t.Context(), mad.Directed().SMP(mad.Get, mad.AttrNodeInfo, 0, 0), mad.Retry{}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Do: %v", err)
		}
	})
}

// TestIBSimUDP attaches to a simulator by UDP, as opensm does.
func TestIBSimUDP(t *testing.T) {
	sim := ibsimtest.StartUDP(t, twoSwitches)
	sim.OpenSM(t, "H1")
	p := open(t, sim.Config("H2"))
	attr, err := p.Attr()
	if err != nil || attr.LID == 0 || attr.SMLID == 0 || attr.PortGUID == 0 {
		t.Fatalf("%+v, %v", attr, err)
	}
	dr, lid := register(t, p, mad.AgentConfig{Class: mad.ClassDirected}), register(t, p, mad.AgentConfig{Class: mad.ClassLID})
	for _, ask := range []struct {
		agent mad.Agent
		route mad.Route
	}{{dr, mad.Directed()}, {dr, mad.Directed(1, 2, 1)}, {lid, mad.ByLID(attr.SMLID)}} {
		m, err := ask.agent.Do(t.Context(), ask.route.SMP(mad.Get, mad.AttrNodeInfo, 0, 0), mad.Retry{})
		if err != nil || m.Data.Err() != nil {
			t.Errorf("%v: %v", ask.route, err)
		}
	}
	if _, err := dr.Do(t.Context(), mad.Directed(1, 4).SMP(mad.Get, mad.AttrNodeInfo, 0, 0), mad.Retry{}); !errors.Is(err, mad.ErrTimeout) {
		t.Errorf("no link: %v", err)
	}
	// The environment names it, too. Clients that detach leave their places: there are ten.
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	c := sim.Config("H2")
	t.Setenv("SIM_HOST", c.Node)
	t.Setenv("IBSIM_SERVER_NAME", c.Server)
	t.Setenv("IBSIM_SERVER_PORT", fmt.Sprint(c.ServerPort))
	for range 12 {
		all, err := umad.Ports()
		if err != nil || len(all) != 1 || all[0].PortGUID != attr.PortGUID {
			t.Fatalf("%+v, %v", all, err)
		}
	}
}

// TestIBSimRequests answers requests of a vendor class from another port.
func TestIBSimRequests(t *testing.T) {
	sim := ibsimtest.Start(t, twoSwitches)
	sim.OpenSM(t, "H1")
	config := sim.Config("H3")
	config.IsSM = true
	server, client := open(t, config), open(t, sim.Config("H2"))
	vendor := mad.AgentConfig{Class: mad.ClassPing, OUI: mad.OUIOpenIB, Methods: mad.Methods(mad.Get)}
	listener := register(t, server, vendor)
	if _, err := server.Register(vendor); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("a second agent of the same methods: %v", err)
	}
	attr, err := server.Attr()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		req, err := listener.Receive(t.Context())
		if err == nil {
			req.Data.SetMethod(req.Data.Method().Response())
			copy(req.Data.Data(), "answer")
			err = listener.Send(t.Context(), req)
		}
		done <- err
	}()
	vendor.Methods = mad.MethodMask{}
	req := mad.New(mad.ClassPing, mad.Get, 0, 0)
	req.SetOUI(mad.OUIOpenIB)
	m, err := register(t, client, vendor).Do(t.Context(), &mad.Message{Addr: mad.Addr{LID: attr.LID, QPN: 1, QKey: mad.QKeyGSI}, Data: req}, mad.Retry{})
	if err != nil || string(m.Data.Data()[:6]) != "answer" {
		t.Errorf("%v, %v", m, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if _, err := listener.Receive(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Receive of a closed port: %v", err)
	}
}

// fakeSim is a simulator that a test plays: it answers control requests as the test says.
type fakeSim struct {
	name    string
	control *net.UnixConn
	kinds   chan uint32 // of requests, as they come
}

// The kinds of control requests that the tests meet.
const (
	connectRequest    = 1
	disconnectRequest = 2
)

func startFake(t *testing.T, answer func(kind uint32, data []byte)) *fakeSim {
	t.Helper()
	s := &fakeSim{name: fmt.Sprintf("fake%d.%s", os.Getpid(), t.Name()), kinds: make(chan uint32, 16)}
	s.control = s.listen(t, "ctl")
	go func() {
		var b [80]byte
		for {
			_, from, err := s.control.ReadFromUnix(b[:])
			if err != nil {
				return
			}
			kind := binary.NativeEndian.Uint32(b[8:])
			s.kinds <- kind
			answer(kind, b[16:])
			s.control.WriteToUnix(b[:], &net.UnixAddr{Name: "@" + strings.TrimPrefix(from.Name, "@") + "\x00", Net: "unixgram"}) // the test sees what is missing
		}
	}()
	return s
}

// listen opens a socket of the simulator.
func (s *fakeSim) listen(t *testing.T, kind string) *net.UnixConn {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: "@" + s.name + ":" + kind + "\x00", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestIBSimDetaches fails to attach after the simulator has taken the client. It has few places.
func TestIBSimDetaches(t *testing.T) {
	s := startFake(t, func(kind uint32, data []byte) {
		if kind == connectRequest {
			binary.NativeEndian.PutUint32(data, 3) // there is no socket of this number
		}
	})
	if _, err := umad.OpenIBSim(umad.IBSim{Node: "H1", SockName: s.name}); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v", err)
	}
	for _, want := range []uint32{connectRequest, disconnectRequest} {
		select {
		case kind := <-s.kinds:
			if kind != want {
				t.Errorf("request %d, not %d", kind, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("no request %d", want)
		}
	}
}

// TestIBSimFull sends to a simulator that reads nothing. Its socket takes some packets.
func TestIBSimFull(t *testing.T) {
	s := startFake(t, func(kind uint32, data []byte) {
		if kind == connectRequest {
			binary.NativeEndian.PutUint32(data, 0)
		}
	})
	s.listen(t, "out0")
	p := open(t, umad.IBSim{Node: "H1", SockName: s.name})
	a := register(t, p, mad.AgentConfig{Class: mad.ClassDirected})
	done := make(chan error)
	for range 2 { // also behind another one
		go func() {
			var err error
			for range 400 {
				if _, err = a.Do(t.Context(), mad.Directed().SMP(mad.Get, mad.AttrNodeInfo, 0, 0), mad.Retry{Timeout: time.Millisecond, Tries: 1}); err != nil && strings.Contains(err.Error(), "does not read its packets") {
					break
				}
			}
			done <- err
		}()
	}
	for range 2 {
		select {
		case err := <-done:
			var timeout interface{ Timeout() bool }
			if !errors.Is(err, mad.ErrTimeout) || !errors.As(err, &timeout) || !timeout.Timeout() || !strings.Contains(err.Error(), "does not read its packets") {
				t.Errorf("%v", err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a request waits for the simulator")
		}
	}
}

// TestIBSimEnvironment attaches to the node that the environment names.
func TestIBSimEnvironment(t *testing.T) {
	sim := ibsimtest.Start(t, twoSwitches)
	c := sim.Config("H2")
	t.Setenv("SIM_HOST", c.Node)
	t.Setenv("IBSIM_SOCKNAME", c.SockName)
	all, err := umad.Ports()
	if err != nil || len(all) != 1 || all[0].Device != "ibsim0" || all[0].LID != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if err := os.Unsetenv("SIM_HOST"); err != nil {
		t.Fatal(err)
	}
	c.Node = "nowhere"
	if _, err := umad.OpenIBSim(c); err == nil {
		t.Error("attached to a node that doesn't exist")
	}
	c.SockName = "goverbs-nobody"
	if _, err := umad.OpenIBSim(c); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("attached to no simulator: %v", err)
	}
}
