package fabric_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/fabric"
	"github.com/goverbs/goverbs/internal/ibsimtest"
	"github.com/goverbs/goverbs/mad"
	"github.com/goverbs/goverbs/umad"
)

// client attaches to a node of a simulator until the test ends.
func client(t *testing.T, c umad.IBSim, config fabric.Config) *fabric.Client {
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
	return fabric.NewClient(p, config)
}

var generated = regexp.MustCompile(`(?m)^# Topology file: .*\n`)

// TestIBNetDiscover compares with C's ibnetdiscover on the topologies of ibsim's package.
func TestIBNetDiscover(t *testing.T) {
	for _, file := range ibsimtest.Examples(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sim := ibsimtest.Start(t, string(text))
			for _, inFlight := range []int{2, 16} {
				c := client(t, sim.Config(""), fabric.Config{})
				f, err := c.Discover(t.Context(), fabric.DiscoverOptions{InFlight: inFlight})
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range f.Problems {
					t.Error(p)
				}
				for _, form := range []struct {
					args  []string
					write func(*bytes.Buffer) error
				}{
					{nil, func(b *bytes.Buffer) error { return f.WriteTopology(b, fabric.TopologyOptions{Time: time.Now()}) }},
					{[]string{"-f"}, func(b *bytes.Buffer) error {
						return f.WriteTopology(b, fabric.TopologyOptions{Time: time.Now(), Full: true})
					}},
					{[]string{"-p"}, func(b *bytes.Buffer) error { return f.WritePorts(b, nil) }},
					{[]string{"-l"}, func(b *bytes.Buffer) error { return f.WriteList(b, 0, nil) }},
					{[]string{"-S"}, func(b *bytes.Buffer) error { return f.WriteList(b, mad.NodeSwitch, nil) }},
				} {
					var ours bytes.Buffer
					if err := form.write(&ours); err != nil {
						t.Fatal(err)
					}
					theirs := sim.Tool(t, "", "ibnetdiscover", form.args...)
					mask := func(s string) string { return generated.ReplaceAllString(s, "") }
					if d := cmp.Diff(mask(theirs), mask(ours.String())); d != "" {
						t.Errorf("%d requests in flight, ibnetdiscover %v (-C +ours):\n%s", inFlight, form.args, d)
					}
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				if err := c.Port().Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestIBTracert compares with C's ibtracert, for all pairs of LIDs.
func TestIBTracert(t *testing.T) {
	sim := ibsimtest.Start(t, example(t, "net.2sw2path4hca"))
	sim.OpenSM(t, "Hca1")
	c := client(t, sim.Config("Hca2"), fabric.Config{})
	f, err := c.Discover(t.Context(), fabric.DiscoverOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text := func(hops []fabric.Hop) string {
		var b strings.Builder
		end := func(word string, h fabric.Hop, port uint8) {
			if h.Node.Type == mad.NodeSwitch {
				port = 0
			}
			fmt.Fprintf(&b, "%s {0x%016x}[%d]\n", word, uint64(h.Node.NodeGUID), port)
		}
		for i, h := range hops {
			if i == 0 {
				end("From", h, h.Node.LocalPort)
			} else {
				fmt.Fprintf(&b, "[%d] -> {0x%016x}[%d]\n", hops[i-1].Out, uint64(h.Node.PortGUID), h.In)
			}
		}
		end("To", hops[len(hops)-1], hops[len(hops)-1].Node.LocalPort)
		return b.String()
	}
	lids := 0
	for from := uint16(1); f.PortByLID(from) != nil; from++ {
		lids++
		for to := uint16(1); f.PortByLID(to) != nil; to++ {
			hops, err := c.Trace(t.Context(), from, to)
			if err != nil {
				t.Errorf("%d to %d: %v", from, to, err)
				continue
			}
			if to%3 != 0 && from%2 != 0 { // a third of the pairs, for the sake of time
				continue
			}
			if d := cmp.Diff(sim.Tool(t, "Hca2", "ibtracert", "-n", fmt.Sprint(from), fmt.Sprint(to)), text(hops)); d != "" {
				t.Errorf("%d to %d (-C +ours):\n%s", from, to, d)
			}
		}
	}
	if lids != 6 {
		t.Errorf("%d LIDs", lids)
	}
	if _, err := c.Trace(t.Context(), 1, 0xc000); !errors.Is(err, fabric.ErrBadTarget) {
		t.Errorf("a multicast LID: %v", err)
	}
}

// example returns a topology of ibsim's package.
func example(t *testing.T, name string) string {
	t.Helper()
	for _, file := range ibsimtest.Examples(t) {
		if filepath.Base(file) == name {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
	}
	t.Fatalf("ibsim's package has no %s", name)
	return ""
}
