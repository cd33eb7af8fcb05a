//go:build linux && vmhost

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/test/rig"
)

// inGuest boots the first series, unless flags name another. Tests that a fault of the
// machine spoiled are run again, after the lines that report it.
func inGuest(ctx context.Context, flags, script string) (code int, stdout, stderr string) {
	for range 3 {
		code, stdout, stderr = inGuestOnce(ctx, flags, script)
		if !strings.Contains(stderr, rig.FaultMark) {
			break
		}
		os.Stdout.WriteString(stderr)
	}
	return code, stdout, stderr
}

func inGuestOnce(ctx context.Context, flags, script string) (code int, stdout, stderr string) {
	args := append([]string{"run"}, strings.Fields(flags)...)
	var out, errs bytes.Buffer
	code = run(ctx, append(args, "--", "sh", "-c", script), &out, &errs)
	return code, out.String(), errs.String()
}

func TestOutputAndExitCode(t *testing.T) {
	t.Setenv("GOVERBS_TEST", "a b\nc")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("from the host"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	code, out, errs := inGuest(t.Context(), "", `
		cat file; echo; echo "$GOVERBS_TEST"; seq 100000 | sha256sum; seq 100000
		echo "$GOVERBS_VM" >&2; echo gone > file; exit 7`)
	if code != 7 {
		t.Errorf("exit code %d, want 7", code)
	}
	if want := "from the host\na b\nc\n"; !strings.HasPrefix(out, want) {
		t.Errorf("stdout begins %.60q, want %q", out, want)
	}
	if !strings.HasSuffix(out, "\n99999\n100000\n") || len(out) < 588895 {
		t.Errorf("stdout has %d bytes and ends %q", len(out), out[max(0, len(out)-20):])
	}
	k, err := rig.Open(rig.Series[0])
	if err != nil {
		t.Fatal(err)
	}
	if errs != k.Release+"\n" {
		t.Errorf("stderr %q, want %q", errs, k.Release)
	}
	if text, err := os.ReadFile("file"); err != nil || string(text) != "from the host" {
		t.Errorf("the guest changed a file of the host: %q, %v", text, err)
	}
}

// TestEverySeries proves each machine: RDMA over rxe, over siw unless the rig says
// that this kernel has none, and the network that tests build on.
func TestEverySeries(t *testing.T) {
	t.Parallel()
	for _, series := range rig.Series {
		t.Run(series, func(t *testing.T) {
			k, err := rig.Open(series)
			if err != nil {
				t.Fatal(err)
			}
			code, out, errs := inGuest(t.Context(), "-kernel "+series, `set -e
				uname -r
				ip link add d0 type dummy
				ip link set d0 up
				rdma link add rxe0 type rxe netdev d0
				test "$GOVERBS_LACKS" = siw || rdma link add siw0 type siw netdev d0
				if modprobe --dry-run --quiet siw; then echo siw; fi
				rdma link | cut -d " " -f 2,4
				for type in veth bridge; do ip link add $type type $type; done
				ip link add link d0 name d0.5 type vlan id 5
				ip link add link d0 name m0 type macvlan
				ip link add b0 type bond
				tc qdisc add dev d0 root netem loss 1%
				tc qdisc show dev d0 | cut -d " " -f 2`)
			want := k.Release + "\nsiw\nrxe0/1 ACTIVE\nsiw0/1 ACTIVE\nnetem\n"
			if series == "7.3" {
				want = k.Release + "\nrxe0/1 ACTIVE\nnetem\n"
			}
			if code != 0 || out != want || errs != "" {
				t.Errorf("code %d, stdout %q, want %q, stderr %q", code, out, want, errs)
			}
		})
	}
}

// crash is a script that makes the kernel panic. Its output is longer than there is
// room for between it and the host, so the first of it has arrived by then.
const crash = "echo before; seq 100000; echo c > /proc/sysrq-trigger; sleep 600"

func TestPanicIsAFailure(t *testing.T) {
	t.Parallel()
	code, out, errs := inGuest(t.Context(), "", crash)
	if code != exitRig || !strings.HasPrefix(out, "before\n1\n2\n") {
		t.Errorf("code %d, want %d; stdout begins %.20q", code, exitRig, out)
	}
	for _, want := range []string{"sysrq triggered crash", "the guest died"} {
		if !strings.Contains(errs, want) {
			t.Errorf("no %q in stderr:\n%s", want, errs)
		}
	}
}

func TestTimeoutShowsStacks(t *testing.T) {
	t.Parallel()
	timesOut(t, "", "exit")
}

// timesOut has the shell do something when its time is over. It gives a busy machine more of it
// for the shell to get to its trap.
func timesOut(t *testing.T, flags, then string) {
	t.Helper()
	for limit := 2 * time.Second; ; limit *= 2 {
		code, _, errs := inGuest(t.Context(), fmt.Sprintf("%s -timeout %v", flags, limit), "trap 'echo stacks >&2; "+then+"' QUIT; while :; do sleep 1; done")
		stacks := strings.Contains(errs, "stacks")
		if !stacks && limit < time.Minute {
			continue
		}
		if code != 124 || !stacks || !strings.Contains(errs, fmt.Sprintf("still running after %v", limit)) {
			t.Errorf("code %d, want 124; stderr %q", code, errs)
		}
		return
	}
}

func TestCancelKillsTheGuest(t *testing.T) {
	t.Parallel()
	code, errs := cancelled(t, "", "echo running; sleep 300")
	if code != exitRig {
		t.Errorf("code %d, want %d; stderr %q", code, exitRig, errs)
	}
}

// cancelled interrupts a script as soon as it prints something.
func cancelled(t *testing.T, flags, script string) (code int, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	args := append([]string{"run"}, strings.Fields(flags)...)
	var errs bytes.Buffer
	code = run(ctx, append(args, "--", "sh", "-c", script), writer(cancel), &errs)
	if ctx.Err() == nil {
		t.Error("it ended before it printed anything")
	}
	return code, errs.String()
}

// writer calls a function whenever something is written.
type writer func()

func (w writer) Write(b []byte) (int, error) {
	w()
	return len(b), nil
}
