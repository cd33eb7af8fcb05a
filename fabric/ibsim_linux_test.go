package fabric_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
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
