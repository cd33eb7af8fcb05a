package fabric_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// gsi is a port whose requests a test answers.
type gsi struct {
	world
	answer func(m *mad.Message) *mad.Message
	closed bool
}

func (g *gsi) Register(mad.AgentConfig) (mad.Agent, error) { return g, nil }

func (g *gsi) Close() error {
	if g.closed {
		return net.ErrClosed
	}
	g.closed = true
	return nil
}

func (g *gsi) Do(_ context.Context, req *mad.Message, _ mad.Retry) (*mad.Message, error) {
	m := *req
	m.Data = append(mad.MAD(nil), req.Data...)
	m.Data.SetMethod(m.Data.Method().Response())
	return g.answer(&m), nil
}

// TestRedirect checks that requests follow redirections.
func TestRedirect(t *testing.T) {
	g := &gsi{}
	g.answer = func(m *mad.Message) *mad.Message {
		switch m.Addr.LID {
		case 5:
			m.Data.SetStatus(mad.StatusRedirect)
			if err := mad.Marshal(m.Data.Data(), &mad.ClassPortInfo{RedirectLID: 6, RedirectQP: 9, RedirectQKey: 7, RedirectSL: 2}); err != nil {
				t.Error(err)
			}
		case 6:
			if m.Addr != (mad.Addr{LID: 6, QPN: 9, QKey: 7, SL: 2, PKeyIndex: 1}) {
				t.Errorf("%+v", m.Addr)
			}
			if err := mad.Marshal(m.Data.Data(), &mad.PortCounters{PortSelect: 1, RcvErrors: 3}); err != nil {
				t.Error(err)
			}
		case 8: // in a loop
			m.Data.SetStatus(mad.StatusRedirect)
			if err := mad.Marshal(m.Data.Data(), &mad.ClassPortInfo{RedirectLID: 8}); err != nil {
				t.Error(err)
			}
		case 9: // to nowhere
			m.Data.SetStatus(mad.StatusRedirect)
		}
		return m
	}
	c := fabric.NewClient(g, &fabric.Config{PKeyIndex: 1})
	counters := mad.PortCounters{PortSelect: 1}
	if err := c.GetPerf(t.Context(), c.GSI(5), &counters); err != nil || counters.RcvErrors != 3 {
		t.Errorf("%+v, %v", counters, err)
	}
	for _, lid := range []uint16{8, 9} {
		var status *mad.StatusError
		if err := c.GetPerf(t.Context(), c.GSI(lid), &counters); !errors.As(err, &status) || status.Status != mad.StatusRedirect {
			t.Errorf("%v", err)
		}
	}
	if err := c.Close(); err != nil || !g.closed {
		t.Errorf("%v", err)
	}
	if err := c.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	if err := c.GetPerf(t.Context(), c.GSI(5), &counters); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// TestKeys checks the positions of keys in requests.
func TestKeys(t *testing.T) {
	g := &gsi{}
	var got *mad.Message
	g.answer = func(m *mad.Message) *mad.Message { got = m; return m }
	c := fabric.NewClient(g, &fabric.Config{MKey: 0x1122, SMKey: 0x3344, SMLID: 77})
	if err := c.Set(t.Context(), mad.ByLID(3), 1, &mad.PortInfo{LinkState: verbs.PortArmed}); err != nil {
		t.Fatal(err)
	}
	if d := got.Data; d.MKey() != 0x1122 || got.Addr.LID != 3 || got.Addr.QPN != 0 || got.Addr.QKey != 0 || d.Modifier() != 1 || d.Data()[32] != 3 {
		t.Errorf("%+v, % x", got.Addr, d)
	}
	if err := c.QueryOne(t.Context(), mad.MaskPathDLID, &mad.PathRecord{DLID: 9}); err != nil {
		t.Fatal(err)
	}
	if d := got.Data; d.SMKey() != 0x3344 || got.Addr.LID != 77 || got.Addr.QPN != 1 || got.Addr.QKey != mad.QKeyGSI || d.ComponentMask() != mad.MaskPathDLID || d.ClassVersion() != 2 {
		t.Errorf("%+v, % x", got.Addr, d)
	}
	// A response with another attribute is refused.
	g.answer = func(m *mad.Message) *mad.Message { m.Data.SetAttrID(mad.AttrSwitchInfo); return m }
	if err := c.Get(t.Context(), mad.ByLID(3), 1, &mad.PortInfo{}); err == nil || !strings.Contains(err.Error(), "SwitchInfo") {
		t.Errorf("%v", err)
	}
}

// A client asks the node at the end of a directed route, which needs no LIDs.
func ExampleClient() {
	c := fabric.NewClient(tree(), nil)
	var node mad.NodeInfo
	if err := c.Get(context.Background(), mad.Directed(1), 0, &node); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(node.Type, node.NumPorts)
	// Output: Switch 8
}
