package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// rdmalink builds the tool, a static binary, and cmtest beside it.
func rdmalink(t *testing.T) string {
	t.Helper()
	need(t, "go")
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(built, "rdmalink")
}

// built is where the tool is. TestMain removes it.
var built string

var build = sync.OnceValue(func() (err error) {
	if built, err = os.MkdirTemp("", "rdmalink-"); err != nil {
		return err
	}
	c := exec.Command("go", "build", "-o", built, "github.com/goverbs/goverbs/cmd/rdmalink", "github.com/goverbs/goverbs/test/cmd/cmtest")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return lookAtSources()
})

// lookAtSources reads the state of the tool's sources, so that go test, which caches results,
// notices a change.
func lookAtSources() error {
	const dirs, files = "{{.Dir}}\n", "{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}/{{.}}\n{{end}}{{range .SFiles}}{{$dir}}/{{.}}\n{{end}}{{range .EmbedFiles}}{{$dir}}/{{.}}\n{{end}}"
	c := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{with $}}"+dirs+files+"{{end}}{{end}}{{end}}",
		"github.com/goverbs/goverbs/cmd/rdmalink", "github.com/goverbs/goverbs/test/cmd/cmtest")
	out, err := c.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	for path := range strings.Lines(string(out)) {
		if _, err := os.Stat(strings.TrimSpace(path)); err != nil && strings.TrimSpace(path) != "" {
			return err
		}
	}
	return nil
}

// TestOwnOnCores checks that a static Go program works in the sandbox, and with a C program as its peer,
// in both roles.
func TestOwnOnCores(t *testing.T) {
	long(t)
	onCores(t, own)
}

func own(t *testing.T, c core) {
	t.Parallel()
	own := rdmalink(t)
	for kind, programs := range map[string][]string{"rxe": {"rc"}, "mlx5": {"rc", "uc", "ud", "srq"}, "mlx5-old": {"rc", "srq"}, "erdma-roce": {"rc"}} {
		if out, err := inside(t, []string{"-d", kind}, own, "devinfo"); err != nil || !strings.Contains(out, "driver                         "+kind[:3]) {
			t.Errorf("%v\n%s", err, out)
		}
		for _, program := range programs {
			need(t, "ibv_"+program+"_pingpong")
			port := freePort(t)
			ours, theirs := own+" pingpong "+program+" -c -e -n 100 -p "+port, "ibv_"+program+"_pingpong -g 1 -c -e -n 100 -p "+port
			for _, ends := range [][2]string{{ours, theirs}, {theirs, ours}} {
				out, err := c.inside(t, []string{"-d", kind}, "sh", "-c", script(ends[0], ends[1]+" localhost"))
				if err != nil || strings.Contains(out, "invalid data") || strings.Count(out, " iters in ") != 2 {
					t.Errorf("%s on %s: %v\n%s", ends[0], kind, err, out)
				}
			}
		}
	}
	need(t, "rping")
	for _, kind := range connectable {
		for _, ends := range [][2]string{{own + " rping", "rping"}, {"rping", own + " rping"}} {
			out, err := c.inside(t, []string{"-d", kind}, "sh", "-c", rpings(t, ends[0]+" -s -a 198.51.100.1", ends[1]+" -c -a 198.51.100.1"))
			if err != nil || len(pinged.FindAllString(out, -1)) != 2 {
				t.Errorf("%s on %s: %v\n%s", ends[0], kind, err, out)
			}
		}
	}
}

// TestOwnDoctor checks that doctor finds no problem in a sandbox.
func TestOwnDoctor(t *testing.T) {
	long(t)
	own := rdmalink(t)
	for _, kind := range kinds {
		want := "finds it by the address 198.51.100.1"
		if !slices.Contains(connectable, kind) {
			want = "efa_0 registers memory"
		}
		if out, err := inside(t, []string{"-d", kind}, own, "doctor"); err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%s", kind, err, out)
		}
	}
}

// TestOwnPerftestOnCores runs perftest's two ends as two processes on devices of eRDMA, EFA and mlx5, one with
// rdma-core's provider and one with ours, in both roles.
func TestOwnPerftestOnCores(t *testing.T) {
	long(t)
	onCores(t, ownPerftest)
}

func ownPerftest(t *testing.T, c core) {
	t.Parallel()
	own := rdmalink(t) + " perf "
	for kind, programs := range map[string]map[string]string{
		"erdma": {"write bw -R -s 65536": "ib_write_bw -R -s 65536 -x 0", "send lat -R -s 64": "ib_send_lat -R -s 64 -x 0", "atomic bw -R": "ib_atomic_bw -R -x 0"},
		"mlx5": {"write bw -c DC -q 2": "ib_write_bw -c DC -q 2 -x 1", "read bw -c DC": "ib_read_bw -c DC -x 1", "send bw -c DC -s 512": "ib_send_bw -c DC -s 512 -x 1",
			"atomic bw -c DC": "ib_atomic_bw -c DC -x 1", "write lat -c DC -s 64": "ib_write_lat -c DC -s 64 -x 1", "send lat -c DC -s 64": "ib_send_lat -c DC -s 64 -x 1",
			"read lat -c DC": "ib_read_lat -c DC -x 1", "atomic lat -c DC": "ib_atomic_lat -c DC -x 1", "send bw -b -c DC -q 2": "ib_send_bw -b -c DC -q 2 -x 1", "write bw -b -c DC": "ib_write_bw -b -c DC -x 1",
			"write bw -c DC --log_dci_streams 2": "ib_write_bw -c DC --log_dci_streams 2 -x 1"},
		"efa": {"send bw -c SRD": "ib_send_bw -c SRD -x 0", "send lat -c SRD -s 32 -I 32": "ib_send_lat -c SRD -s 32 -x 0",
			"read bw -c SRD -q 4": "ib_read_bw -c SRD -q 4 -x 0", "send bw -c UD -s 1024": "ib_send_bw -c UD -Q 1 -s 1024 -x 0"},
	} {
		for ours, theirs := range programs {
			need(t, strings.Fields(theirs)[0])
			for _, ends := range [][2]string{{own + ours, theirs}, {theirs, own + ours}} {
				if out, err := perftest(t, c, kind, ends[0], ends[1]); err != nil {
					t.Errorf("%s: %v\n%s", ends[0], err, out)
				}
			}
		}
	}
}

// TestExitCode checks the exit code: the command's, or 128 plus its signal's number.
func TestExitCode(t *testing.T) {
	for way, options := range ways {
		for line, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -TERM $$": 128 + 15} {
			_, err := inside(t, options, "sh", "-c", line)
			var code cli.ExitCode
			if errors.As(err, &code); int(code) != want || want == 0 && err != nil {
				t.Errorf("%s: %s: %v", way, line, err)
			}
		}
	}
	if err := Run(t.Context(), cli.Output{}, []string{"--", "no-such-command-here"}); err == nil {
		t.Error("a command that is not there ran")
	}
}

// TestLeftBehind checks that processes left running by a command end with the sandbox.
func TestLeftBehind(t *testing.T) {
	const generations = "sh -c 'sh -c \"sleep 1000 & sleep 1000\" & sleep 1000' & sleep 0.05"
	for way, options := range ways {
		if out, err := inside(t, options, "sh", "-c", generations); err != nil {
			t.Errorf("%s: %v\n%s", way, err, out)
		}
		out, err := inside(t, options, "sh", "-c", "sleep 1000 & echo $!")
		pid := strings.TrimSpace(out)
		if _, gone := os.Stat("/proc/" + pid); err != nil || !os.IsNotExist(gone) {
			t.Errorf("%s: process %s is there: %v, %v", way, pid, gone, err)
		}
	}
}

// TestGivenBack checks that a sandbox that has ended leaves no descriptor open, and no worker
// running. It runs in this process, without parallel tests.
func TestGivenBack(t *testing.T) {
	before := descriptors(t)
	var out strings.Builder
	if err := Run(t.Context(), cli.Output{Stdout: &out, Stderr: &out}, []string{"-d", "erdma", "--", "cat", "/sys/class/infiniband/erdma0/node_type"}); err != nil || out.String() != "4: RNIC\n" {
		t.Fatalf("%v\n%s", err, &out)
	}
	for end := time.Now().Add(guard); descriptors(t) > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d descriptors are open, %d were", descriptors(t), before)
		}
	}
}

func descriptors(t *testing.T) int {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// TestFiles checks that every call sees the sandbox's files at its paths, and no others.
func TestFiles(t *testing.T) {
	for line, want := range map[string]string{
		"cat /sys/class/infiniband_verbs/uverbs0/ibdev":               "rxe0\n",
		"cd /sys; cat class/infiniband/rxe0/node_type":                "1: CA\n",
		"ls /sys/class/infiniband":                                    "rxe0\n",
		"ls /dev/infiniband":                                          "rdma_cm\nuverbs0\n",
		"stat -c %F:%t:%T /dev/infiniband/uverbs0":                    "character special file:e7:c0\n",
		"test -e /dev/infiniband/uverbs1 || echo none":                "none\n",
		"test -c /dev/infiniband/rdma_cm && echo node":                "node\n",
		"ls /dev/infiniband/uverbs1 2>/dev/null || echo none":         "none\n",
		hostVariable + "=2 ls /sys/class/infiniband":                  "rxe1\n",
		"exec 5<>/dev/infiniband/uverbs0; echo x >&5":                 "sh: 1: 5: Bad file descriptor\n", // as dup2 is refused
		"grep -c NoNewPrivs:.1 /proc/self/status":                     "1\n",
		"ls -l /sys/class/infiniband_verbs/uverbs0/dev | grep -c dev": "1\n",
	} {
		if out, _ := inside(t, []string{"-n", "2"}, "sh", "-c", line); out != want {
			t.Errorf("%s: %q, want %q", line, out, want)
		}
	}
}
