package rping

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

func TestRpingOptions(t *testing.T) {
	server := options{server: true, port: 7174, size: 64}
	client := options{client: true, addr: "fe80::1%eth0", port: 7174, size: 64}
	with := func(o options, change func(*options)) options { change(&o); return o }
	for line, want := range map[string]options{
		"-s":                                     server,
		"-sPa10.0.0.1":                           with(server, func(o *options) { o.persistent, o.addr = true, "10.0.0.1" }),
		"-s -a :: --poll -j":                     with(server, func(o *options) { o.addr, o.poll, o.asJSON = "::", true, true }),
		"-sqd":                                   with(server, func(o *options) { o.ownQP, o.debug = true, true }),
		"--server --port=65535 --verbose --json": with(server, func(o *options) { o.asJSON, o.verbose, o.port = true, true, 65535 }),
		"-s --json -vp 65535":                    with(server, func(o *options) { o.asJSON, o.verbose, o.port = true, true, 65535 }),
		"-c -a fe80::1%eth0":                     client,
		"-ca fe80::1%eth0 -C 5 -S 65535 -vV": with(client, func(o *options) {
			o.count, o.size, o.verbose, o.validate = 5, 65535, true, true
		}),
		"-a fe80::1%eth0 -C0 -S23 -I fe80::2 -c": with(client, func(o *options) { o.size, o.source = 23, "fe80::2" }),
	} {
		got, err := parse(strings.Fields(line))
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(options{})); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", line, err, diff)
		}
	}
}

func TestRpingAddress(t *testing.T) {
	for want, o := range map[string]options{
		"10.0.0.1:7174":       {addr: "10.0.0.1", port: 7174},
		"[fe80::1%eth0]:7174": {addr: "fe80::1%eth0", port: 7174},
		"host:1":              {addr: "host", port: 1},
		":7174":               {port: 7174},
	} {
		r := &session{options: o}
		if got := r.listenAddress(); got != want || o.addr != "" && o.address() != want {
			t.Errorf("%+v: listen on %s, dial %s, want %s", o, got, o.address(), want)
		}
	}
}

func TestRpingUsageErrors(t *testing.T) {
	const any = "expected one of -s, -c, -a, -I, -p, -C, -S, -v, -V, -P, -q, -d, --poll, -j"
	long := strings.Join([]string{"expected one of --server", "--client", "--address", "--source", "--port", "--count", "--size", "--verbose", "--validate", "--persistent", "--own-qp", "--debug", "--poll", "--json"}, ", ")
	for line, want := range map[string]string{
		"":                           "expected one of -s, -c",
		"-v":                         "expected one of -s, -c",
		"-s -c -a 10.0.0.1":          "expected one of -s, -c",
		"-c":                         "-c: the server's address is missing: -a ADDR",
		"-c -a":                      "expected -a ADDR",
		"-s -e":                      `"-e": ` + any,
		"-svx":                       `"-x": ` + any,
		"-s 10.0.0.1":                `unexpected argument "10.0.0.1"`,
		"-s -":                       `unexpected argument "-"`,
		"-s --polled":                `"--polled": ` + long + "; did you mean --poll?",
		"-s -p 0":                    `"0": the port must be a number from 1 to 65535`,
		"-s -p http":                 `"http": the port must be a number from 1 to 65535`,
		"-s -C -1":                   `"-1": the count must be a number from 0 to 2147483647`,
		"-s -S 22":                   `"22": the size must be a number from 23 to 65535`,
		"-s -S 65536":                `"65536": the size must be a number from 23 to 65535`,
		"-c -a 10.0.0.1 -P":          "-P is for the server",
		"-s -I 10.0.0.1":             "-I is for the client; the server's address is -a",
		"-c -a fe80::1 -I 127.0.0.1": "-I 127.0.0.1 and the server's address fe80::1 are of different address families",
	} {
		err := Run(t.Context(), cli.Output{}, strings.Fields(line))
		var usage cli.UsageError
		if !errors.As(err, &usage) || usage.Text != want {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// FuzzRpingOptions checks that all accepted options are within the limits.
func FuzzRpingOptions(f *testing.F) {
	for _, line := range []string{"-s", "-c -a 1 -C 5", "-ca1 -S23", "-svVPj --poll", "-S 99999999999999999999 -s", "-sp"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		o, err := parse(strings.Fields(line))
		if err == nil && (o.size < MinSize || o.size > MaxSize || o.port < 1 || o.port > 65535 || o.count < 0 || o.server == o.client) {
			t.Errorf("%q: %+v", line, o)
		}
	})
}
