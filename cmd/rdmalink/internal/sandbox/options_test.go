package sandbox

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

func TestOptions(t *testing.T) {
	for line, want := range map[string]options{
		"-- ibv_devinfo -v":                     {kind: "rxe", hosts: 1, command: []string{"ibv_devinfo", "-v"}},
		"--device siw --hosts 3 -- rping -- -s": {kind: "siw", hosts: 3, command: []string{"rping", "--", "-s"}},
		"-d erdma -r f -- true":                 {kind: "erdma", hosts: 1, record: "f", command: []string{"true"}},
		"--trap -d erdma -- true":               {kind: "erdma", hosts: 1, trap: true, command: []string{"true"}},
		"-f fat-tree:4x2 --no-sm -- true":       {fabric: "fat-tree:4x2", noSM: true, command: []string{"true"}},
		"--netns -- true":                       {kind: "rxe", hosts: 1, netns: true, command: []string{"true"}},
		"--wire 192.0.2.1,192.0.2.2 -- true":    {kind: "rxe", hosts: 2, wire: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}, command: []string{"true"}},
		"-d siw -n2 -- true":                    {kind: "siw", hosts: 2, command: []string{"true"}},
	} {
		got, err := parseOptions(strings.Fields(line))
		if err != nil || got.kind != want.kind || got.hosts != want.hosts || got.record != want.record || got.trap != want.trap || got.fabric != want.fabric || got.noSM != want.noSM || got.netns != want.netns || !slices.Equal(got.wire, want.wire) || !slices.Equal(got.command, want.command) {
			t.Errorf("%s: %+v, %v", line, got, err)
		}
	}
	for line, want := range map[string]string{
		"":                                 "expected -- and the command",
		"ibv_devinfo":                      "expected -- and the command",
		"--":                               "expected -- and the command",
		"word -- true":                     `unexpected argument "word" before --`,
		"-d mlx4 -- true":                  "expected one of rxe, siw, erdma, erdma-old, erdma-roce, mlx5",
		"--hosts 0 -- true":                "hosts",
		"--hosts x -- true":                "hosts",
		"--loud -- true":                   "loud",
		"--no-sm -- true":                  "--no-sm goes with --fabric",
		"-f x --netns -- true":             "--fabric goes without",
		"-f x -d siw -- true":              "--fabric goes without --device",
		"--wire 192.0.2.1 -d siw -- true":  "--wire goes with --device rxe or mlx5",
		"--wire 192.0.2.1 -n2 -- true":     "--hosts 2, but --wire has 1 addresses",
		"--wire 0.0.0.0 -- true":           `"0.0.0.0": expected ADDR`,
		"--wire 192.0.2.1,x -- true":       `"x": expected ADDR`,
		"--wire 192.0.2.1 --netns -- true": "--wire goes without --fabric, --profile and --netns",
		"--wire-key doc.go -- true":        "--wire-key goes with --wire",
		"-t -d siw -- true":                "--trap goes with --device erdma or erdma-old or erdma-roce or mlx5",
	} {
		var usage cli.UsageError
		if _, err := parseOptions(strings.Fields(line)); !errors.As(err, &usage) || !strings.Contains(usage.Text, want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// TestWireKeyFile checks that a key is the whole file without line ends, and neither short nor long.
func TestWireKeyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	most := strings.Repeat("k", mostKey)
	for _, c := range []struct{ text, key, err string }{
		{"sixteen letters!\r\n", "sixteen letters!", ""},
		{most, most, ""},
		{"", "", "a key of 0 bytes; it needs at least 16"},
		{"fifteen letters\r\n", "", "a key of 15 bytes"},
		{most + "k", "", "more than 4096 bytes of a key"},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		var o options
		err := readWireKey(&o, file)
		if string(o.wireKey) != c.key || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%.20q: %.20q, %v", c.text, o.wireKey, err)
		}
	}
	if err := readWireKey(new(options), filepath.Join(file, "none")); err == nil {
		t.Error("a key without a file")
	}
}
