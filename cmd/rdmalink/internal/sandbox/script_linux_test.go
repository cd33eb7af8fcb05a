package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/record"
)

// TestScriptOnCores runs the same script with rdma-core's providers and with ours, and compares the
// data exchanged with driver and device. Extended CQs and QPs of libibverbs (ibv_wr_*) exchange the same
// data as others. When polling, the sandbox sees only some of the stores
// to registers; when trapping, it sees all. libmlx5 puts short messages in completions unless
// its environment disables that.
func TestScriptOnCores(t *testing.T) {
	long(t)
	onCores(t, scripts)
}

func scripts(t *testing.T, core core) {
	const root = "../../../../"
	program := core.compiled(t, root+"test/sandbox/script.c", "-lefa", "-lmlx5")
	newest := len(core.env) > 0
	var records []string // lines of them, which eRDMA's provider of rdma-core 44 fills with other values
	if !newest {
		records = []string{" record "}
	}
	for _, c := range []struct {
		kind, golden string
		line         []string
	}{
		{"rxe", "provider/rxe/testdata/script.rec", []string{program, "rxe"}},
		{"rxe", "provider/rxe/testdata/script-ud.rec", []string{program, "rxe-ud"}},
		{"siw", "provider/siw/testdata/script.rec", []string{program, "siw", "198.51.100.1"}},
		{"erdma", "provider/erdma/testdata/script-44.rec", []string{program, "erdma", "198.51.100.1"}},
		{"erdma", "provider/erdma/testdata/script.rec", []string{program, "erdma-65", "198.51.100.1"}},
		{"erdma-old", "provider/erdma/testdata/script-old.rec", []string{program, "erdma-old", "198.51.100.1"}},
		{"erdma-roce", "provider/erdma/testdata/script.rec", []string{program, "erdma-65"}},
		{"mlx5", "provider/mlx5/testdata/script.rec", []string{"env", "MLX5_SCATTER_TO_CQE=0", program, "mlx5"}},
		{"mlx5", "provider/mlx5/testdata/script-short.rec", []string{program, "mlx5-all"}},
		{"mlx5", "provider/mlx5/testdata/script-128.rec", []string{"env", "MLX5_CQE_SIZE=128", program, "mlx5"}}, // READs in long completions go astray in libmlx5 before 2026
		{"mlx5", "provider/mlx5/testdata/script-xrc.rec", []string{"env", "MLX5_SCATTER_TO_CQE=0", program, "mlx5-xrc"}},
		{"mlx5", "provider/mlx5/testdata/script-dc.rec", []string{"env", "MLX5_SCATTER_TO_CQE=0", program, "mlx5-dc"}},
		{"mlx5", "provider/mlx5/testdata/script.rec", []string{"env", "MLX5_SCATTER_TO_CQE=0", program, "mlx5-ex"}},
		{"mlx5", "provider/mlx5/testdata/script-ud.rec", []string{"env", "MLX5_SCATTER_TO_CQE=0", program, "mlx5-ex-ud"}},
		{"mlx5", "provider/mlx5/testdata/script-raw.rec", []string{"env", "MLX5_SCATTER_TO_CQE=0", program, "mlx5-raw"}},
		{"mlx5", "provider/mlx5/testdata/script-srq.rec", []string{"env", "MLX5_SCATTER_TO_CQE=0", program, "mlx5-srq"}},
		{"mlx5", "provider/mlx5/testdata/script-uc.rec", []string{"env", "MLX5_SCATTER_TO_CQE=0", program, "mlx5-uc"}},
		{"mlx5", "provider/mlx5/testdata/script-ud.rec", []string{"env", "MLX5_SCATTER_TO_CQE=0", program, "mlx5-ud"}},
		{"mlx5-old", "provider/mlx5/testdata/script-old.rec", []string{"env", "MLX5_SCATTER_TO_CQE=0", program, "mlx5"}},
		{"efa", "provider/efa/testdata/script.rec", []string{program, "efa"}},
		{"efa-old", "provider/efa/testdata/script-old.rec", []string{program, "efa-old"}},
		{"efa-old", "provider/efa/testdata/script-ud.rec", []string{program, "efa-ud"}},
	} {
		if (slices.Contains(c.line, "erdma-65") || strings.HasPrefix(c.kind, "efa")) && !newest {
			continue
		}
		registers := slices.Contains(withRegisters, c.kind)
		t.Run(c.kind+", "+c.golden, func(t *testing.T) {
			t.Parallel()
			golden, recording := root+c.golden, recordScript(t, core, c.line, "-d", c.kind)
			if registers {
				golden, recording = withoutLines(t, golden, " doorbell ", " record "), withoutLines(t, recording, " doorbell ", " record ")
			}
			if text, err := compared(t, golden, recording); text != "" || err != nil {
				t.Errorf("%v\n%s", err, text)
			}
		})
		if !registers {
			continue
		}
		t.Run(c.kind+", "+c.golden+", trapped", func(t *testing.T) {
			needTrap(t)
			t.Parallel()
			recording := recordScript(t, core, c.line, "-d", c.kind, "--trap")
			if text, err := compared(t, withoutLines(t, root+c.golden, records...), withoutLines(t, recording, records...)); text != "" || err != nil {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}

// recordScript runs the script, which must not misuse the device.
func recordScript(t *testing.T, c core, line []string, options ...string) (recording string) {
	t.Helper()
	recording = filepath.Join(t.TempDir(), "c.rec")
	out, err := c.inside(t, append(options, "-r", recording), line...)
	if err != nil || out != "all data arrived\n" {
		t.Fatalf("%v\n%s", err, out)
	}
	return part(t, recording, record.Crossings)
}

// compiled compiles a C source into a program.
func compiled(t *testing.T, source string) string { return core{}.compiled(t, source) }

// compiled compiles a C source with this version's headers and libraries.
func (c core) compiled(t *testing.T, source string, libraries ...string) string {
	t.Helper()
	need(t, "gcc")
	for _, header := range []string{"infiniband/verbs.h", "rdma/rdma_cma.h"} {
		needFile(t, filepath.Join("/usr/include", header))
	}
	needFile(t, source) // go test notices a change of files that tests access
	program := filepath.Join(t.TempDir(), "program")
	gcc := exec.Command("gcc", append([]string{"-O1", "-o", program, source, "-lrdmacm", "-libverbs"}, libraries...)...)
	gcc.Env = append(os.Environ(), c.env...)
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// withoutLines leaves out the lines with some words.
func withoutLines(t *testing.T, name string, words ...string) string {
	t.Helper()
	return part(t, name, func(recording string) string {
		var b strings.Builder
		for line := range strings.Lines(recording) {
			if !slices.ContainsFunc(words, func(word string) bool { return strings.Contains(line, word) }) {
				b.WriteString(line)
			}
		}
		return b.String()
	})
}

// part keeps a part of a recording.
func part(t *testing.T, name string, part func(recording string) string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return recorded(t, part(string(text)))
}

// recorded writes a recording to a file.
func recorded(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "rec")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// compared is rdmalink sandbox diff.
func compared(t *testing.T, a, b string) (string, error) {
	t.Helper()
	var out strings.Builder
	err := Run(t.Context(), cli.Output{Stdout: &out}, []string{"diff", a, b})
	return out.String(), err
}

// TestDiff checks that only addresses, keys and numbers may differ.
func TestDiff(t *testing.T) {
	const line = "1 qp.send%q7 sqe op=SEND qpn=%q7 length=64 sge0.addr=@0x7f3a sge0.key=#0x100\n"
	a := recorded(t, line)
	if text, err := compared(t, a, recorded(t, strings.NewReplacer("q7", "q9", "0x7f3a", "0x1", "0x100", "0x300").Replace(line))); text != "" || err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	text, err := compared(t, a, recorded(t, strings.Replace(line, "length=64", "length=65", 1)))
	if err != cli.ExitCode(1) || !strings.Contains(text, "length=64") || !strings.Contains(text, "length=65") {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err := compared(t, a, "/no/such/file"); err == nil {
		t.Error("no error")
	}
	if err := Run(t.Context(), cli.Output{}, []string{"diff", a}); err == nil {
		t.Error("one recording is compared")
	}
}

// TestMisuse checks that an invalid doorbell is reported, and that the sandbox fails.
func TestMisuse(t *testing.T) {
	source := filepath.Join(t.TempDir(), "misuse.c")
	if err := os.WriteFile(source, []byte(misuse), 0o600); err != nil {
		t.Fatal(err)
	}
	program := compiled(t, source)
	out, err := inside(t, []string{"-d", "erdma"}, program)
	if err == nil || !strings.Contains(err.Error(), "erdma0: ") {
		t.Errorf("%v\n%s", err, out)
	}
	// A command that fails keeps its exit code, and its programs' misuse is reported all the same.
	out, err = inside(t, []string{"-d", "erdma"}, "sh", "-c", program+"; exit 3")
	if err != cli.ExitCode(3) || !strings.Contains(out, "rdmalink: note: a device was used as it must not be:\nerdma0: ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// misuse rings the doorbell of a nonexistent CQ, without arming it.
const misuse = `
#include <infiniband/verbs.h>
#include <stdint.h>
#include <sys/mman.h>

int main(void)
{
	int n;
	struct ibv_device **all = ibv_get_device_list(&n);
	struct ibv_context *c = ibv_open_device(all[0]);
	uint64_t volatile *page = mmap(0, 4096, PROT_WRITE, MAP_SHARED, c->cmd_fd, 3 * 4096);
	struct ibv_cq *cq = ibv_create_cq(c, 1, 0, 0, 0);
	for (uint64_t i = 1; i < 512; i++)
		page[i] = i << 32;
	return ibv_destroy_cq(cq) + ibv_close_device(c);
}
`
