package fabric_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// world is a subnet whose answers to directed routes a test can change. It implements both the port
// and the agent of that port.
type world struct {
	mad.Port
	mad.Agent
	mu     sync.Mutex
	nodes  []*fakeNode // port 1 of the first one is the port
	answer func(n *fakeNode, in uint8, m mad.MAD) (silent bool)
	delay  func() time.Duration
	under  atomic.Int32
	atOnce atomic.Int32
	asked  atomic.Int32
}

type fakeNode struct {
	info  mad.NodeInfo
	name  string
	links map[uint8]end
}

type end struct {
	node *fakeNode
	port uint8
}

// add adds a node.
func (w *world) add(t mad.NodeType, ports uint8) *fakeNode {
	n := &fakeNode{name: fmt.Sprintf("node %d", len(w.nodes)), links: make(map[uint8]end)}
	guid := verbs.GUID(0x1000 + len(w.nodes)*0x100)
	n.info = mad.NodeInfo{BaseVersion: 1, ClassVersion: 1, Type: t, NumPorts: ports, NodeGUID: guid, PortGUID: guid, SystemGUID: guid}
	w.nodes = append(w.nodes, n)
	return n
}

func (w *world) connect(a *fakeNode, p uint8, b *fakeNode, q uint8) {
	a.links[p], b.links[q] = end{b, q}, end{a, p}
}

func (w *world) Register(mad.AgentConfig) (mad.Agent, error) { return w, nil }
func (w *world) Close() error                                { return nil }
func (w *world) Attr() (mad.PortAttr, error)                 { return mad.PortAttr{LID: 1, SMLID: 1}, nil }
func (w *world) OpenSM() (io.Closer, error)                  { return nil, mad.ErrNoSMI }

func (w *world) Do(ctx context.Context, req *mad.Message, _ mad.Retry) (*mad.Message, error) {
	w.asked.Add(1)
	for now := w.under.Add(1); ; {
		most := w.atOnce.Load()
		if now <= most || w.atOnce.CompareAndSwap(most, now) {
			break
		}
	}
	defer w.under.Add(-1)
	if w.delay != nil {
		select {
		case <-time.After(w.delay()):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n, in := w.nodes[0], uint8(1)
	if n.info.Type == mad.NodeSwitch {
		in = 0
	}
	for i, out := range req.Data.InitialPath()[1 : int(req.Data.HopCount())+1] {
		if i > 0 && n.info.Type != mad.NodeSwitch {
			return nil, mad.ErrTimeout
		}
		to, ok := n.links[out]
		if !ok {
			return nil, mad.ErrTimeout
		}
		n, in = to.node, to.port
	}
	m := &mad.Message{Data: append(mad.MAD(nil), req.Data...)}
	m.Data.SetMethod(mad.GetResp)
	var a mad.Attribute
	switch req.Data.AttrID() {
	case mad.AttrNodeInfo:
		info := n.info
		info.LocalPort = in
		a = &info
	case mad.AttrNodeDescription:
		a = &mad.NodeDescription{Text: n.name}
	case mad.AttrSwitchInfo:
		a = &mad.SwitchInfo{}
	case mad.AttrPortInfo:
		p := &mad.PortInfo{LocalPort: in, LinkState: verbs.PortDown, PhysLinkState: verbs.PhysPolling, LinkWidthActive: mad.Width4X, LinkSpeedActive: 4}
		if _, ok := n.links[uint8(req.Data.Modifier())]; ok {
			p.LinkState, p.PhysLinkState = verbs.PortActive, verbs.PhysLinkUp
		}
		a = p
	}
	if err := mad.Marshal(m.Data.Data(), a); err != nil {
		return nil, err
	}
	if w.answer != nil && w.answer(n, in, m.Data) {
		return nil, mad.ErrTimeout
	}
	return m, nil
}

// tree returns a fabric with two layers of switches and two hosts at each switch.
func tree() *world {
	w := &world{}
	host := w.add(mad.NodeCA, 1)
	var spines []*fakeNode
	for range 3 {
		spines = append(spines, w.add(mad.NodeSwitch, 8))
	}
	for i := range 5 {
		leaf := w.add(mad.NodeSwitch, 8)
		for j, s := range spines {
			w.connect(leaf, uint8(j+1), s, uint8(i+1))
		}
		for j := range 2 {
			h := host
			if i+j > 0 {
				h = w.add(mad.NodeCA, 1)
			}
			w.connect(leaf, uint8(j+5), h, 1)
		}
	}
	return w
}

func discover(t *testing.T, w *world, o *fabric.DiscoverOptions) *fabric.Fabric {
	t.Helper()
	f, err := fabric.NewClient(w, nil).Discover(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func topology(t *testing.T, f *fabric.Fabric) string {
	t.Helper()
	var b bytes.Buffer
	if err := f.WriteTopology(&b, nil); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestOrder delays answers at random. It checks that the result is always the same, and that the
// number of outstanding requests stays within the limit.
func TestOrder(t *testing.T) {
	want := topology(t, discover(t, tree(), &fabric.DiscoverOptions{InFlight: 1}))
	if n := strings.Count(want, "guid=0x"); n != 2*18 {
		t.Fatalf("%d GUIDs in %s", n, want)
	}
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			w := tree()
			var mu sync.Mutex
			r := rand.New(rand.NewPCG(seed, 1))
			w.delay = func() time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(r.IntN(1000)) * time.Millisecond
			}
			f := discover(t, w, &fabric.DiscoverOptions{InFlight: 7})
			if d := cmp.Diff(want, topology(t, f)); d != "" || len(f.Problems) > 0 {
				t.Errorf("seed %d: %v\n%s", seed, f.Problems, d)
			}
			if n := w.atOnce.Load(); n > 7 {
				t.Errorf("%d requests under way", n)
			}
			if int(w.asked.Load()) != f.Requests {
				t.Errorf("%d requests, %d counted", w.asked.Load(), f.Requests)
			}
		})
	}
}

// TestHostile discovers fabrics with nodes that give wrong answers. The rest must still be found.
func TestHostile(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(w *world)
		want  error // a problem matches it
		lost  int   // number of nodes that aren't found
	}{
		{"a silent host", func(w *world) {
			w.answer = func(n *fakeNode, _ uint8, _ mad.MAD) bool { return n == w.nodes[len(w.nodes)-1] }
		}, mad.ErrTimeout, 1},
		{"a switch without SwitchInfo", func(w *world) {
			w.answer = func(n *fakeNode, _ uint8, m mad.MAD) bool { return n == w.nodes[1] && m.AttrID() == mad.AttrSwitchInfo }
		}, mad.ErrTimeout, 0},
		{"a port without PortInfo", func(w *world) {
			w.answer = func(n *fakeNode, _ uint8, m mad.MAD) bool {
				if n == w.nodes[1] && m.AttrID() == mad.AttrPortInfo && m.Modifier() == 4 {
					m.SetStatus(mad.StatusInvalid)
				}
				return false
			}
		}, &mad.StatusError{}, 0},
		{"a GUID that two nodes have", func(w *world) {
			last := w.nodes[len(w.nodes)-1]
			last.info.NodeGUID = w.nodes[1].info.NodeGUID
		}, fabric.ErrDuplicateGUID, 1},
		{"a host that names port 200", func(w *world) {
			w.answer = func(n *fakeNode, _ uint8, m mad.MAD) bool {
				if n == w.nodes[len(w.nodes)-1] && m.AttrID() == mad.AttrNodeInfo {
					m.Data()[36] = 200
				}
				return false
			}
		}, fabric.ErrBadPort, 1},
		{"a host that answers for another", func(w *world) {
			last, other := w.nodes[len(w.nodes)-1], w.nodes[len(w.nodes)-2]
			w.answer = func(n *fakeNode, in uint8, m mad.MAD) bool {
				if n == last && m.AttrID() == mad.AttrNodeInfo {
					info := other.info
					info.LocalPort = in
					return mad.Marshal(m.Data(), &info) != nil
				}
				return false
			}
		}, fabric.ErrLinkConflict, 1},
		{"a switch that claims 255 ports", func(w *world) {
			n := w.nodes[1]
			n.info.NumPorts = 255
			w.answer = func(at *fakeNode, _ uint8, m mad.MAD) bool {
				if at == n && m.AttrID() == mad.AttrPortInfo && m.Modifier() > 8 {
					m.Data()[33] = byte(verbs.PhysLinkUp) << 4
				}
				return false
			}
		}, mad.ErrTimeout, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := tree()
			all := len(w.nodes)
			test.spoil(w)
			f := discover(t, w, &fabric.DiscoverOptions{InFlight: 4})
			if len(f.Nodes) != all-test.lost {
				t.Errorf("%d nodes of %d, %d should be lost", len(f.Nodes), all, test.lost)
			}
			found := false
			for _, p := range f.Problems {
				var status *mad.StatusError
				if _, ok := test.want.(*mad.StatusError); ok {
					found = found || errors.As(p, &status)
				} else {
					found = found || errors.Is(p, test.want)
				}
				if strings.ContainsFunc(p.Error(), func(r rune) bool { return r < ' ' }) {
					t.Errorf("%q", p.Error())
				}
			}
			if !found {
				t.Errorf("no problem is %v: %v", test.want, f.Problems)
			}
			check(t, f)
		})
	}
}

// check checks that a fabric is consistent and can be written in each format.
func check(t *testing.T, f *fabric.Fabric) {
	t.Helper()
	for _, n := range f.Nodes {
		if f.Node(n.Info.NodeGUID) != n {
			t.Errorf("0x%x isn't found by its GUID", uint64(n.Info.NodeGUID))
		}
		for i, p := range n.Ports {
			if p == nil {
				continue
			}
			if p.Node != n || int(p.Number) != i || p.Remote != nil && p.Remote.Remote != p {
				t.Errorf("0x%x port %d is inconsistent", uint64(n.Info.NodeGUID), i)
			}
		}
	}
	topology(t, f)
	b, err := json.Marshal(f)
	if err != nil || !json.Valid(b) {
		t.Errorf("%v", err)
	}
	var dot bytes.Buffer
	if err := errors.Join(f.WriteDOT(&dot, nil), f.WritePorts(io.Discard, nil), f.WriteList(io.Discard, 0, nil)); err != nil {
		t.Error(err)
	}
	if d := fabric.Diff(f, f); len(d) > 0 {
		t.Errorf("a fabric differs from itself: %v", d)
	}
}

// TestEndless discovers fabrics in which each port leads to a new switch, until they are too large.
func TestEndless(t *testing.T) {
	for _, test := range []struct {
		name                   string
		nodes, ports, problems int // limits
		numPorts               uint8
		silent                 bool // PortInfo of ports beyond the fourth isn't answered
		want                   string
		listed                 int // problems
	}{
		{"nodes", 1000, 1 << 20, 1 << 16, 4, false, "more than 1000 nodes", 1},
		{"ports", 1000, 6000, 1 << 16, 255, false, "more than 6000 ports", 1},
		{"problems", 1000, 6000, 30, 255, true, "more problems are not listed", 31},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer fabric.SetLimits(test.nodes, test.ports, test.problems)()
			w := tree()
			guid := uint64(1) << 40
			w.answer = func(n *fakeNode, _ uint8, m mad.MAD) bool {
				if n == w.nodes[0] {
					return false
				}
				switch m.AttrID() {
				case mad.AttrNodeInfo:
					guid++
					return mad.Marshal(m.Data(), &mad.NodeInfo{Type: mad.NodeSwitch, NumPorts: test.numPorts, NodeGUID: verbs.GUID(guid), LocalPort: 1}) != nil
				case mad.AttrPortInfo:
					m.Data()[33] = byte(verbs.PhysLinkUp) << 4
					m.Data()[28] = 1
					return test.silent && m.Modifier() > 4
				}
				return false
			}
			leaf := w.nodes[4]
			for p := range test.numPorts {
				leaf.links[p+1] = end{leaf, 1}
			}
			f := discover(t, w, &fabric.DiscoverOptions{InFlight: 8})
			ports, large := 0, 0
			for _, n := range f.Nodes {
				ports += int(n.Info.NumPorts)
			}
			for _, p := range f.Problems {
				if errors.Is(p, fabric.ErrTooLarge) && strings.Contains(p.Error(), test.want) {
					large++
				}
			}
			if len(f.Nodes) > test.nodes || len(f.Nodes) < 20 || ports > test.ports || large != 1 || len(f.Problems) != test.listed {
				t.Errorf("%d nodes with %d ports, %d times too large, %d problems", len(f.Nodes), ports, large, len(f.Problems))
			}
			check(t, f)
		})
	}
}

// TestCancelDiscovery cancels the context of a discovery.
func TestCancelDiscovery(t *testing.T) {
	w := tree()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.answer = func(*fakeNode, uint8, mad.MAD) bool {
		if w.asked.Load() > 40 {
			cancel()
		}
		return false
	}
	f, err := fabric.NewClient(w, nil).Discover(ctx, nil)
	if !errors.Is(err, context.Canceled) || f == nil || len(f.Nodes) == 0 || len(f.Nodes) == len(w.nodes) {
		t.Errorf("%v, %v", f, err)
	}
	check(t, f)
	if _, err := fabric.NewClient(w, nil).Discover(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestChanging runs discoveries while links go down and come up.
func TestChanging(t *testing.T) {
	for seed := range uint64(30) {
		w := tree()
		r := rand.New(rand.NewPCG(seed, 2))
		type link struct{ a, b end }
		var down []link
		w.answer = func(*fakeNode, uint8, mad.MAD) bool {
			if r.IntN(4) > 0 {
				return false
			}
			if len(down) > 0 && r.IntN(2) == 0 {
				l := down[len(down)-1]
				down = down[:len(down)-1]
				w.connect(l.a.node, l.a.port, l.b.node, l.b.port)
				return false
			}
			n := w.nodes[1+r.IntN(len(w.nodes)-1)]
			for p, to := range n.links {
				down = append(down, link{end{n, p}, to})
				delete(n.links, p)
				delete(to.node.links, to.port)
				break
			}
			return r.IntN(10) == 0
		}
		f, err := fabric.NewClient(w, nil).Discover(t.Context(), &fabric.DiscoverOptions{InFlight: 3})
		if err != nil {
			if !errors.Is(err, mad.ErrTimeout) {
				t.Errorf("seed %d: %v", seed, err)
			}
			continue
		}
		check(t, f)
	}
}

func TestDiff(t *testing.T) {
	w := tree()
	before := discover(t, w, nil)
	leaf, host := w.nodes[4], w.nodes[len(w.nodes)-1]
	delete(leaf.links, 2)
	delete(w.nodes[2].links, 1)
	w.nodes[1].name = "renamed\x1b[2J"
	host.info.NodeGUID = 0x9999
	after := discover(t, w, nil)
	kinds := make(map[fabric.ChangeKind]int)
	for _, c := range fabric.Diff(before, after) {
		kinds[c.Kind]++
		if strings.ContainsFunc(c.String(), func(r rune) bool { return r < ' ' }) {
			t.Errorf("%q", c)
		}
	}
	want := map[fabric.ChangeKind]int{
		fabric.NodeRemoved: 1, fabric.NodeAdded: 1, fabric.DescriptionChanged: 1, fabric.LinkRemoved: 2, fabric.LinkMoved: 1, fabric.StateChanged: 2,
	}
	if d := cmp.Diff(want, kinds); d != "" {
		t.Errorf("%v\n%s", fabric.Diff(before, after), d)
	}
}

// TestReadJSON reads a fabric that MarshalJSON wrote, and hostile input.
func TestReadJSON(t *testing.T) {
	f := discover(t, tree(), nil)
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var back fabric.Fabric
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if d := fabric.Diff(f, &back); len(d) > 0 {
		t.Errorf("what was read differs: %v", d)
	}
	if d := fabric.Diff(&back, f); len(d) > 0 {
		t.Errorf("what was read differs: %v", d)
	}
	if p := back.PortByLID(f.Nodes[1].LID()); f.Nodes[1].LID() != 0 && p == nil {
		t.Error("LIDs are lost")
	}
	node := `{"node_info":{"Guid":"0x1","NumPorts":1},"ports":[{"port":1,"guid":"0x2"}]}`
	for _, hostile := range []string{
		`{}`, `{"nodes":[{}]}`, `{"nodes":[` + node + `]}`, `{"nodes":[` + node + `,` + node + `]}`, `{"from":{"guid":"0x1","port":9},"nodes":[` + node + `]}`,
		`{"from":{"guid":"0x1","port":1},"nodes":[` + node + `],"links":[[{"guid":"0x1","port":1},{"guid":"0x7","port":1}]]}`,
		`{"from":{"guid":"0x1","port":1},"nodes":[{"node_info":{"Guid":"0x1"},"ports":[{"port":255,"guid":"0x2"}]}]}`,
		`{"from":{"guid":"0x1","port":1},"nodes":[` + node + `],"links":[[{"guid":"0x1","port":1},{"guid":"0x1","port":1}]]}`,
		`{"from":{"guid":"0x1","port":1},"nodes":[{"node_info":{"Guid":"0x1","NumPorts":1},"ports":[{"port":1,"guid":"0x2"},{"port":1,"guid":"0x2"}]}]}`,
		`{"from":{"guid":"0x1","port":1},"nodes":[{"node_info":{"Guid":"0x1","NumPorts":2},"ports":[{"port":0,"guid":"0x2"},{"port":1,"guid":"0x2"}]}],"links":[[{"guid":"0x1","port":0},{"guid":"0x1","port":1}]]}`,
		`{"from":{"guid":"0x1","port":1},"nodes":{"a":` + node + `}}`, `null`, `{"nodes":null}`,
		`{"from":{"guid":"0x1","port":1},"nodes":[{"node_info":{"Guid":"0x1","NumPorts":1,"x":"` + strings.Repeat("y", 1<<14) + `"},"ports":[{"port":1,"guid":"0x2"}]}]}`,
	} {
		if err := json.Unmarshal([]byte(hostile), new(fabric.Fabric)); err == nil {
			t.Errorf("%s is accepted", hostile)
		}
	}
}

// TestReadJSONLimits reads files with more elements than a discovery has.
func TestReadJSONLimits(t *testing.T) {
	const nodes, ports, problems = 1 << 8, 1 << 12, 1 << 8
	defer fabric.SetLimits(nodes, ports, problems)()
	const start = `{"from":{"guid":"0x1","port":1},`
	node := `{"node_info":{"Guid":"0x1","NumPorts":1},"ports":[{"port":1,"guid":"0x2"}]}`
	link := `[{"guid":"0x1","port":1},{"guid":"0x1","port":1}]`
	many := func(one string, n int) string { return "[" + strings.Repeat(one+",", n-1) + one + "]" }
	for name, text := range map[string]string{
		"nodes":    start + `"nodes":` + many(`{}`, nodes+1) + `}`,
		"ports":    start + `"nodes":[{"node_info":{"Guid":"0x1"},"ports":` + many(`{}`, 257) + `}]}`,
		"links":    start + `"nodes":[` + node + `],"links":` + many(link, ports+1) + `}`,
		"problems": start + `"nodes":[` + node + `],"problems":` + many(`""`, problems+1) + `}`,
	} {
		if err := json.Unmarshal([]byte(text), new(fabric.Fabric)); err == nil || !strings.Contains(err.Error(), "an array has more than") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Few bytes name many ports.
	var b strings.Builder
	b.WriteString(start + `"nodes":[`)
	for i := range ports/255 + 1 {
		fmt.Fprintf(&b, `{"node_info":{"Guid":"0x%x","NumPorts":255}},`, i+1)
	}
	b.WriteString(node + `]}`)
	if err := json.Unmarshal([]byte(b.String()), new(fabric.Fabric)); err == nil || !strings.Contains(err.Error(), "more than 4096 ports") {
		t.Errorf("ports of all nodes: %v", err)
	}
	// Ports that no node has are counted before the nodes are checked.
	text := start + `"nodes":` + many(`{"ports":`+many(`{}`, 256)+`}`, (ports+nodes)/256+1) + `}`
	if err := json.Unmarshal([]byte(text), new(fabric.Fabric)); err == nil || !strings.Contains(err.Error(), "more than 4096 ports") {
		t.Errorf("ports without nodes: %v", err)
	}
}

// TestSavedDiscovery saves a discovery with problems, an invalid description and the speeds of FDR10,
// and reads it again.
func TestSavedDiscovery(t *testing.T) {
	w := tree()
	w.nodes[1].name = "cut \xff\xfe"
	f := discover(t, w, nil)
	f.Nodes[1].Ports[1].Mlnx = &mad.MlnxExtPortInfo{LinkSpeedSupported: 1, LinkSpeedEnabled: 1}
	f.Problems = append(f.Problems, &fabric.Problem{Route: mad.Directed(1, 2), Port: -1, Err: mad.ErrTimeout})
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var back fabric.Fabric
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if d := append(fabric.Diff(f, &back), fabric.Diff(&back, f)...); len(d) > 0 {
		t.Errorf("what was read differs: %v", d)
	}
	if p := back.Nodes[1].Ports[1].Mlnx; p == nil || *p != *f.Nodes[1].Ports[1].Mlnx {
		t.Errorf("%+v", p)
	}
	if len(back.Problems) != 1 || back.Problems[0].Error() != f.Problems[0].Error() {
		t.Errorf("problems: %v", back.Problems)
	}
	for i, n := range back.Nodes {
		if got, want := n.Route.String(), f.Nodes[i].Route.String(); got != want {
			t.Errorf("route %q, not %q", got, want)
		}
	}
}

func FuzzReadJSON(f *testing.F) {
	f.Add([]byte(`{"from":{"guid":"0x1","port":1},"nodes":[{"node_info":{"Guid":"0x1","NumPorts":1},"ports":[{"port":1,"guid":"0x2","port_info":{"Lid":3}}]}]}`))
	f.Add([]byte(`{"nodes":[{"node_info":{}}],"links":[[{},{}]]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var got fabric.Fabric
		if json.Unmarshal(data, &got) != nil {
			return
		}
		if d := fabric.Diff(&got, &got); len(d) > 0 {
			t.Errorf("it differs from itself: %v", d)
		}
	})
}

// TestRecords splits responses of subnet administration, including hostile ones.
func TestRecords(t *testing.T) {
	answer := func(records, offset int, flags mad.RMPPFlags, length uint32) mad.MAD {
		m := append(mad.New(mad.ClassSA, mad.GetTableResp, mad.AttrPathRecord, 0)[:56], make([]byte, records*offset*8)...)
		for len(m) < mad.Size {
			m = append(m, 0)
		}
		m.SetAttrOffset(uint16(offset))
		m.SetRMPPVersion(1)
		m.SetRMPPSegment(1)
		m.SetRMPPFlags(flags)
		m.SetRMPPLength(length)
		return m
	}
	const one, first = mad.RMPPActive | mad.RMPPFirst | mad.RMPPLast, mad.RMPPActive | mad.RMPPFirst
	for i, test := range []struct {
		m    mad.MAD
		want int
		err  error
	}{
		{answer(100, 8, first, 0), 100, nil},
		{answer(2, 8, one, 20+128), 2, nil},
		{answer(2, 8, one, 20), 0, nil},
		{answer(2, 8, one, 5), 3, nil},
		{answer(2, 8, one, 1<<31), 3, nil},
		{answer(3, 8, first, 20+640), 3, fabric.ErrTruncated},
		{answer(3, 0, one, 0), 0, nil},
		{answer(1, 0x1fff, one, 20+0x1fff*8), 1, nil},
	} {
		r, err := fabric.Records(test.m)
		if len(r) != test.want || !errors.Is(err, test.err) {
			t.Errorf("%d: %d records, %v", i, len(r), err)
		}
	}
}

// FuzzRecords checks that records are of the length that a response names, and that no two overlap.
func FuzzRecords(f *testing.F) {
	m := append(mad.New(mad.ClassSA, mad.GetTableResp, mad.AttrPathRecord, 0), make([]byte, 200)...)
	for _, offset := range []uint16{0, 1, 8, 0x1fff, 0xffff} {
		m.SetAttrOffset(offset)
		f.Add(bytes.Clone(m))
		one := bytes.Clone(m[:mad.Size])
		mad.MAD(one).SetRMPPVersion(1)
		mad.MAD(one).SetRMPPFlags(mad.RMPPActive | mad.RMPPLast)
		mad.MAD(one).SetRMPPLength(21)
		f.Add(one)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := mad.Parse(b)
		if err != nil {
			return
		}
		records, err := fabric.Records(m)
		if err != nil && !errors.Is(err, fabric.ErrTruncated) {
			t.Error(err)
		}
		total := 0
		for _, r := range records {
			if len(r) != 8*int(m.AttrOffset()) {
				t.Fatalf("a record of %d bytes, not %d", len(r), 8*m.AttrOffset())
			}
			total += len(r)
		}
		if total > len(m.Data()) {
			t.Errorf("%d bytes of %d", total, len(m.Data()))
		}
	})
}

// FuzzNames checks that no map causes a panic, and that names are printable.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{"# a map\n\n0x1000 \"first\" # comment\n0x1100\t\"sec\x1bond\"\n", "0x1 unquoted # x", "0x1", "0x1 \"\"", "0x10000000000000000 \"a\"", "0x12zz \"a\""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		names, err := fabric.ReadNames(strings.NewReader(text))
		if err != nil {
			return
		}
		if len(names) > strings.Count(text, "\n")+1 {
			t.Errorf("%d names", len(names))
		}
		for guid, name := range names {
			if name != mad.Printable(name) {
				t.Errorf("%v: %q", guid, name)
			}
		}
	})
}

func TestNames(t *testing.T) {
	names, err := fabric.ReadNames(strings.NewReader("# a map\n\n0x1000 \"first\" # comment\n0x1100\t\"sec\x1bond\"\n0x1000 \"again\"\n"))
	if err != nil || names[0x1000] != "first" || names[0x1100] != "sec ond" {
		t.Errorf("%v, %v", names, err)
	}
	for _, line := range []string{`x "y"`, `0x12zz "y"`, `12 "y"`, `0x10000000000000000 "y"`} {
		if _, err := fabric.ReadNames(strings.NewReader(line)); err == nil || !strings.Contains(err.Error(), "has no GUID") {
			t.Errorf("%s: %v", line, err)
		}
	}
}
