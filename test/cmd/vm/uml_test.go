//go:build linux && vmhost

package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/test/rig"
)

const onUML = "-kernel " + rig.UML

func TestUMLOutputAndExitCode(t *testing.T) {
	t.Parallel()
	code, out, errs := inGuest(t.Context(), onUML+" -mem 512", `
		uname -r; free -m | awk '/Mem/ { print ($2 > 400 && $2 < 600) }'; seq 300000
		printf 'a\r\nb\tc\004\n'; echo "$GOVERBS_VM$GOVERBS_LACKS" >&2; exit 7`)
	k, err := rig.Open(rig.UML)
	if err != nil {
		t.Fatal(err)
	}
	if code != 7 || errs != k.Release+"\n" {
		t.Errorf("exit code %d, want 7; stderr %q, want %q", code, errs, k.Release)
	}
	if want := k.Release + "\n1\n1\n2\n"; !strings.HasPrefix(out, want) {
		t.Errorf("stdout begins %.60q, want %q", out, want)
	}
	if end := "\n299999\n300000\na\r\nb\tc\004\n"; !strings.HasSuffix(out, end) || strings.Count(out, "\n") < 300000 {
		t.Errorf("stdout has %d bytes and ends %q, want %q", len(out), out[max(0, len(out)-30):], end)
	}
}

// TestUMLDevices checks that both drivers are there and carry data, the network is what tests build on, and the host's
// files stay as they are.
func TestUMLDevices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, out, errs := inGuest(t.Context(), onUML, `set -e
		echo gone > `+dir+`/file
		modprobe rdma_rxe
		ip -o link | cut -d " " -f 2,3
		ip netns add n
		ip link add d0 type dummy
		ip link add v0 type veth peer name v1 netns n
		ip addr add 10.0.0.1/24 dev d0
		ip link set d0 up
		rdma link add rxe0 type rxe netdev d0
		rdma link add siw0 type siw netdev d0
		rdma link | cut -d " " -f 2,4
		rping -s -a 10.0.0.1 -C 3 2> /dev/null &
		until rping -c -a 10.0.0.1 -C 3 2> /dev/null; do sleep 0.1; done # it listens
		wait`)
	const want = "lo: <LOOPBACK,UP,LOWER_UP>\nrxe0/1 ACTIVE\nsiw0/1 ACTIVE\n"
	if code != 0 || out != want || errs != "" {
		t.Errorf("code %d, stdout %q, want %q, stderr %q", code, out, want, errs)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("the guest left %v on the host, %v", files, err)
	}
}

func TestUMLPanicIsAFailure(t *testing.T) {
	t.Parallel()
	code, out, errs := inGuest(t.Context(), onUML, crash)
	if code != exitRig || !strings.HasPrefix(out, "before\n1\n2\n") {
		t.Errorf("code %d, want %d; stdout begins %.20q", code, exitRig, out)
	}
	for _, want := range []string{"sysrq triggered crash", "the guest died"} {
		if !strings.Contains(errs, want) {
			t.Errorf("no %q in stderr:\n%s", want, errs)
		}
	}
}

func TestUMLTimeoutShowsStacks(t *testing.T) {
	t.Parallel()
	timesOut(t, onUML, ":") // it goes on, and is killed after a minute
}

// TestUMLCancelLeavesNoProcess checks that a cancelled run leaves none of UML's programs, which are processes of the
// host.
func TestUMLCancelLeavesNoProcess(t *testing.T) {
	code, errs := cancelled(t, onUML+" -mem 300", "sleep 300 & echo running; sleep 300")
	if code != exitRig {
		t.Errorf("code %d, want %d; stderr %q", code, exitRig, errs)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if !umlRuns(t) {
			return
		}
	}
	t.Error("processes of the guest are left")
}

// umlRuns looks for the command line of the machine with 300 MiB.
func umlRuns(t *testing.T) bool {
	t.Helper()
	ps, err := exec.Command("ps", "-eo", "args").Output()
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(ps, []byte("mem=300M"))
}
