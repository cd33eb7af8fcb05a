package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// ways lists the ways in which stores to registers are detected.
var ways = func() map[string][]string {
	all := map[string][]string{"polled": nil}
	if canTrap {
		all["trapped"] = []string{"--trap", "-d", "erdma"}
	}
	return all
}()

// needTrap is for tests that no other architecture can run.
func needTrap(t *testing.T) {
	t.Helper()
	if !canTrap {
		t.Skip("--trap knows the instructions of amd64")
	}
}

// TestTrapOnCores checks that a record that is written after its doorbell is detected if each store
// stops the program, and only then. The right order is no misuse.
func TestTrapOnCores(t *testing.T) {
	needTrap(t)
	onCores(t, func(t *testing.T, c core) {
		// Before rdma-core 65, which has what an arm looks like there, the record of a new CQ is zero.
		first := "0x0000000000000000"
		if c.isNewest() {
			first = "0xff00000130000000"
		}
		lateRecord(t, c, first)
	})
}

func lateRecord(t *testing.T, core core, first string) {
	program := core.compiled(t, "../../../../test/sandbox/late.c")
	for _, c := range []struct {
		options, words []string
		caught         bool
	}{
		{[]string{"--trap"}, []string{"late"}, true},
		{[]string{"--trap"}, nil, false},
		{nil, []string{"late"}, false},
	} {
		out, err := core.inside(t, append(c.options, "-d", "erdma"), append([]string{program}, c.words...)...)
		switch {
		case !c.caught && err != nil:
			t.Errorf("%v %v: %v\n%s", c.options, c.words, err, out)
		case c.caught && (err == nil || !strings.Contains(err.Error(), "erdma0: CQ 1: the doorbell says 0x0000000180000000, and its record "+first)):
			t.Errorf("%v %v: %v\n%s", c.options, c.words, err, out)
		}
	}
}

// TestTrapPrograms checks that threads, children and Go's signal handlers work. Our provider
// for mlx5 copies requests to registers 16 bytes at a time, libmlx5 8.
func TestTrapPrograms(t *testing.T) {
	needTrap(t)
	need(t, "rping")
	own := rdmalink(t)
	for _, kind := range withRegisters {
		if !slices.Contains(connectable, kind) {
			continue
		}
		for _, ends := range [][2]string{{"rping", "rping"}, {own + " rping", "rping"}, {"rping", own + " rping"}, {own + " rping", own + " rping"}} {
			out, err := inside(t, []string{"--trap", "-d", kind}, "sh", "-c", rpings(t, ends[0]+" -s -a 198.51.100.1", ends[1]+" -c -a 198.51.100.1"))
			if err != nil || len(pinged.FindAllString(out, -1)) != 2 {
				t.Errorf("%s, %v: %v\n%s", kind, ends, err, out)
			}
		}
	}
}

// TestTrapSignals checks that processes receive a SIGBUS other than for a store to a
// register, and signals that stop and continue them. A new process stops for its tracer too,
// so the process that will stop reports that it runs.
func TestTrapSignals(t *testing.T) {
	needTrap(t)
	born := filepath.Join(t.TempDir(), "born")
	for line, want := range map[string]error{
		"kill -BUS $$": cli.ExitCode(128 + 7),
		"sh -c 'echo > " + born + "; kill -STOP $$; exit 5' & until test -e " + born + " && grep -q 'State:.[Tt] (' /proc/$!/status; do :; done; " +
			"kill -CONT $!; wait $!": cli.ExitCode(5),
	} {
		if out, err := inside(t, ways["trapped"], "sh", "-c", line); err != want {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
}

// TestTrapUnknown checks that an unknown instruction is reported, and ends the program.
func TestTrapUnknown(t *testing.T) {
	needTrap(t)
	source := filepath.Join(t.TempDir(), "unknown.c")
	if err := os.WriteFile(source, []byte(unknown), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := inside(t, []string{"--trap", "-d", "erdma"}, compiled(t, source))
	if err == nil || !strings.Contains(err.Error(), "not known: 48 ab") {
		t.Errorf("%v\n%s", err, out)
	}
}

// unknown stores by a string instruction.
const unknown = `
#include <infiniband/verbs.h>
#include <sys/mman.h>

int main(void)
{
	struct ibv_device **all = ibv_get_device_list(0);
	struct ibv_context *c = ibv_open_device(all[0]);
	void *page = mmap(0, 4096, PROT_WRITE, MAP_SHARED, c->cmd_fd, 3 * 4096);

	asm volatile("stosq" : "+D"(page) : "a"(0L) : "memory");
	return 0;
}
`

// TestTrapForbidden checks the error if tracing is forbidden, as in some containers.
func TestTrapForbidden(t *testing.T) {
	_, err := new(supervisor).trace(&launched{thread: os.Getpid()})
	if err == nil || !strings.Contains(err.Error(), "--trap: ptrace: operation not permitted: ") {
		t.Error(err)
	}
}

// TestEmulateNobody checks the error for a process that was killed in the meantime, which the
// tracer depends on.
func TestEmulateNobody(t *testing.T) {
	needTrap(t)
	const nobody = 1 << 30
	if _, err := emulate(&process{id: nobody}); !errors.Is(err, unix.ESRCH) {
		t.Error(err)
	}
}
