package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli/clitest"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/perfcmd"
	"github.com/goverbs/goverbs/internal/perftest"
)

// TestDevinfoLine checks the command line; package devinfo tests the output.
func TestDevinfoLine(t *testing.T) {
	for line, want := range map[string]clitest.Result{
		"devinfo siw9":   {Code: 1, Err: "rdmalink: find RDMA device \"siw9\": no such RDMA device: there are siw0, mlx4_0\n"},
		"devinfo siw0 x": {Code: 2, Err: "rdmalink: unexpected argument \"x\"\nUsage: rdmalink devinfo [DEV] (more: rdmalink devinfo -h)\n"},
	} {
		tool, _, nets := clitest.Informed()
		if diff := cmp.Diff(want, runLine(tool, line, nets)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
	tool, _, nets := clitest.Informed()
	terse := runLine(tool, "devinfo siw0", nets)
	tool, _, nets = clitest.Informed()
	if got := runLine(tool, "devinfo -v siw0", nets); got.Code != 0 || terse.Code != 0 || len(got.Out) < 2*len(terse.Out) {
		t.Errorf("%+v\n%+v", terse, got)
	}
}

// TestDoctorLine checks the command line and the exit code; package doctor tests the
// findings.
func TestDoctorLine(t *testing.T) {
	for line, want := range map[string]clitest.Result{
		"doctor siw9":       {Code: 1, Err: "rdmalink: find RDMA device \"siw9\": no such RDMA device: there are siw0, mlx4_0\n"},
		"doctor --selftest": {Code: 2, Err: "rdmalink: --selftest needs the device: doctor --selftest DEV\nUsage: rdmalink doctor [DEV] (more: rdmalink doctor -h)\n"},
		"doctor siw0 x":     {Code: 2, Err: "rdmalink: unexpected argument \"x\"\nUsage: rdmalink doctor [DEV] (more: rdmalink doctor -h)\n"},
	} {
		tool, _, nets := clitest.Informed()
		if diff := cmp.Diff(want, runLine(tool, line, nets)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

// TestPerfCommands checks that each program of perftest has a command, with help that
// lists its options.
func TestPerfCommands(t *testing.T) {
	tool, _, nets := clitest.Machine()
	for v := perftest.Send; v <= perftest.Atomic; v++ {
		for _, latency := range []bool{true, false} {
			k := perfcmd.Kind{Verb: v, Latency: latency}
			r := runLine(tool, "perf "+v.String()+" "+k.Name()+" -n 10 -h", nets)
			if r.Code != 0 || !strings.Contains(r.Out, k.Program()) || !strings.Contains(r.Out, "-n, --iters=N") || strings.Contains(r.Out, "--report_gbits") == latency {
				t.Errorf("%+v", r)
			}
		}
	}
}

// TestPingpongLine checks the command line as a whole; package pingpong tests its
// options.
func TestPingpongLine(t *testing.T) {
	tool, _, nets := clitest.Machine()
	want := clitest.Result{Code: 2, Err: "rdmalink: -P needs -o\n" +
		"Usage: rdmalink pingpong rc [OPTIONS] [HOST] (more: rdmalink pingpong rc -h)\n"}
	if diff := cmp.Diff(want, runLine(tool, "pingpong rc -P", nets)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPingpongHelp checks that -h may stand anywhere.
func TestPingpongHelp(t *testing.T) {
	for _, kind := range []string{"rc", "uc", "ud", "srq"} {
		tool, _, nets := clitest.Machine()
		want := runLine(tool, "pingpong "+kind+" -h", nets)
		tool, _, nets = clitest.Machine()
		got := runLine(tool, "pingpong "+kind+" -p 1 --help", nets)
		if got.Code != 0 || cmp.Diff(want, got) != "" || !strings.Contains(got.Out, "--ib-dev") {
			t.Errorf("%+v", got)
		}
	}
}

func TestQPStates(t *testing.T) {
	for line, want := range map[string]struct {
		code     int
		out, err string
	}{
		"qp states":          {0, "mlx5_0 lqpn 17 RC pid 7", ""},
		"qp st RC -j":        {0, `"type":"RC","from":"RESET"`, ""},
		"qp states xrc":      {2, "", `"xrc": expected one of rc, uc, ud`},
		"qp states rc uc":    {2, "", `unexpected argument "uc"`},
		"qp":                 {2, "", "expected one of states, help"},
		"qp states --svg /x": {0, "", ""},
	} {
		line = strings.Replace(line, "/x", filepath.Join(t.TempDir(), "qp.svg"), 1)
		tool, _ := clitest.Resources()
		got := runLine(tool, line, &hosttest.Netdevs{})
		if got.Code != want.code || !strings.Contains(got.Out, want.out) || !strings.Contains(got.Err, want.err) || (got.Err == "") != (want.err == "") {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// TestRpingLine checks the command line as a whole; package rping tests its options.
func TestRpingLine(t *testing.T) {
	tool, _, nets := clitest.Machine()
	want := clitest.Result{Code: 2, Err: "rdmalink: expected one of -s, -c\nUsage: rdmalink rping -s|-c [OPTIONS] (more: rdmalink rping -h)\n"}
	if diff := cmp.Diff(want, runLine(tool, "rping -v", nets)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRpingHelp checks that -h may stand anywhere, as with the other commands.
func TestRpingHelp(t *testing.T) {
	tool, _, nets := clitest.Machine()
	want := runLine(tool, "rping -h", nets)
	tool, _, nets = clitest.Machine()
	if got := runLine(tool, "rping -s -p 1 -h", nets); got.Code != 0 || cmp.Diff(want, got) != "" {
		t.Errorf("%+v", got)
	}
}

// TestRpingInterrupted interrupts rping before it has a connection.
func TestRpingInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, strings.Fields("rping -c -a 192.0.2.1"), nil, &stdout, &stderr)
	if code != cli.ExitFailed || stderr.String() != "rdmalink: interrupted\n" || stdout.Len() > 0 {
		t.Errorf("%d, %s%s", code, &stdout, &stderr)
	}
}

func TestUsageErrors(t *testing.T) {
	const add = "\nUsage: rdmalink add NAME type TYPE netdev NETDEV (more: rdmalink add -h)\n"
	for line, want := range map[string]string{
		"":                              "expected one of " + strings.Join(cli.CommandNames(root().Sub), ", ") + "\nUsage: rdmalink [OPTIONS] COMMAND (more: rdmalink -h)\n",
		"frob":                          "\"frob\": expected one of " + strings.Join(cli.CommandNames(root().Sub), ", ") + "\nUsage: rdmalink [OPTIONS] COMMAND (more: rdmalink -h)\n",
		"link frob":                     "\"frob\": expected one of add, del, show, help\nUsage: rdmalink link [OPTIONS] COMMAND (more: rdmalink link -h)\n",
		"add":                           "expected NAME" + add,
		"add siw0":                      "expected type" + add,
		"add siw0 siw":                  "\"siw\": expected type" + add,
		"add siw0 type":                 "expected TYPE (siw or rxe)" + add,
		"add siw0 type siw lo":          "\"lo\": expected netdev" + add,
		"add siw0 type siw netdev":      "expected NETDEV" + add,
		"add siw0 type siw netdev lo 1": "unexpected argument \"1\"" + add,
		"add siw0 --fax":                "\"--fax\": expected one of --keep-netdev, --help, --version, --json, --pretty, --details, --raw, --oneline, --batch, --force" + add,
		"add siw0 --js=1":               "--js takes no value" + add,
		"del":                           "expected DEV\nUsage: rdmalink del DEV (more: rdmalink del -h)\n",
		"link del a b":                  "unexpected argument \"b\"\nUsage: rdmalink link del DEV (more: rdmalink link del -h)\n",
		"show siw0/x":                   "\"siw0/x\": the port must be a number from 1\nUsage: rdmalink show [DEV[/PORT]] (more: rdmalink show -h)\n",
		"show siw0/0":                   "\"siw0/0\": the port must be a number from 1\nUsage: rdmalink show [DEV[/PORT]] (more: rdmalink show -h)\n",
		"show -jq":                      "\"-q\": expected one of --help, --version, --json, --pretty, --details, --raw, --oneline, --batch, --force\nUsage: rdmalink show [DEV[/PORT]] (more: rdmalink show -h)\n",
	} {
		tool, kernel, nets := clitest.Machine()
		asked := len(kernel.Requests)
		if diff := cmp.Diff(clitest.Result{Code: 2, Err: "rdmalink: " + want}, runLine(tool, line, nets)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", line, diff)
		}
		if len(kernel.Requests) != asked {
			t.Errorf("%q reached the kernel", line)
		}
	}
}

func TestHelpAtEveryLevel(t *testing.T) {
	var walk func(c cli.Command, path string)
	walk = func(c cli.Command, path string) {
		for _, flag := range []string{" -h", " --help"} {
			tool, _, nets := clitest.Machine()
			got := runLine(tool, path+flag, nets)
			if got.Code != 0 || got.Err != "" || !strings.HasPrefix(got.Out, "Usage: rdmalink"+path) || !strings.Contains(got.Out, c.Summary) {
				t.Errorf("rdmalink%s%s: %+v", path, flag, got)
			}
			for _, s := range c.Sub {
				if !strings.Contains(got.Out, "\n  "+s.Name()) {
					t.Errorf("help of %q does not list %s", path, s.Name())
				}
			}
		}
		for _, s := range c.Sub {
			walk(s, path+" "+s.Name())
		}
	}
	walk(root(), "")
}

func TestVersion(t *testing.T) {
	for _, line := range []string{"-V", "--version", "version"} {
		tool, _, nets := clitest.Machine()
		if got := runLine(tool, line, nets); got.Code != 0 || !strings.HasPrefix(got.Out, "rdmalink, goverbs ") {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// TestProgram checks that a raw command gets its options, and that -h prints its help
// anywhere before --.
func TestProgram(t *testing.T) {
	var got []string
	commands := root()
	commands.Sub = append(commands.Sub, cli.Command{Names: []string{"raw"}, Summary: "a summary", Args: "ARGS", Raw: true,
		Run: cli.Program(func(_ context.Context, _ *cli.Tool, args []string) error { got = args; return nil })})
	tool, _, nets := clitest.Machine()
	r := clitest.Run(tool, commands, "-j raw -c -p 7174 -- -h", nets)
	if diff := cmp.Diff([]string{"-c", "-p", "7174", "--", "-h"}, got); r.Code != 0 || diff != "" || !tool.JSON || tool.Pretty {
		t.Errorf("%+v, json %v, pretty %v\n%s", r, tool.JSON, tool.Pretty, diff)
	}
	if r := clitest.Run(tool, commands, "raw -c -h", nets); !strings.Contains(r.Out, "a summary") {
		t.Errorf("%+v", r)
	}
}

func runLine(t *cli.Tool, line string, nets *hosttest.Netdevs) clitest.Result {
	return clitest.Run(t, root(), line, nets)
}
