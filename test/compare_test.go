//go:build vm

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/test/rig"
)

// rdmaVersion is a version of iproute2's rdma.
type rdmaVersion string

const (
	debianRDMA rdmaVersion = "iproute2 6.1"    // Debian 12's
	newerRDMA  rdmaVersion = "iproute2, newer" // of its backports
)

func (v rdmaVersion) run(t *testing.T, line string) output {
	t.Helper()
	if inMemory[v] == nil {
		inMemory[v] = toMemory(t, v)
	}
	return runCommand(t, exec.Command(inMemory[v][0], append(inMemory[v][1:], strings.Fields(line)...)...))
}

// inMemory is how to start them: half the time of a start from the host's
// files is that of loading libraries.
var inMemory = make(map[rdmaVersion][]string)

func toMemory(t *testing.T, v rdmaVersion) []string {
	t.Helper()
	program := must(exec.LookPath("rdma"))(t)
	if v == newerRDMA {
		program = must(rig.NewerRDMA())(t)
	}
	dir := must(os.MkdirTemp("", "rdma"))(t)
	sh(t, fmt.Sprintf("cp %[1]s $(ldd %[1]s | grep -o '/[^ ]*') %[2]s", program, dir))
	loader := must(filepath.Glob(dir + "/ld-linux*"))(t)
	return []string{loader[0], "--library-path", dir, filepath.Join(dir, "rdma")}
}

// sameAsRDMA compares what rdmalink prints with both versions.
func sameAsRDMA(t *testing.T, line string) {
	t.Helper()
	got := rdmalink(t, line)
	debianRDMA.same(t, line, got)
	newerRDMA.same(t, line, got)
}

// sameAsDebians is for lines that are too many for both, or that the newer one
// has nothing new of.
func sameAsDebians(t *testing.T, line string) {
	t.Helper()
	debianRDMA.same(t, line, rdmalink(t, line))
}

// same compares what both print, and the exit codes; errors have words of their
// own. A difference counts when rdma prints the same before and after ours: what
// moves meanwhile proves nothing.
func (v rdmaVersion) same(t *testing.T, line string, ours output) {
	t.Helper()
	before := v.run(t, line)
	if v.diff(line, before, ours) == "" {
		return
	}
	if !eventually(func() bool {
		ours = rdmalink(t, line)
		after := v.run(t, line)
		same := before == after
		before = after
		return same
	}) {
		t.Errorf("%s: never prints the same twice", line)
	}
	if diff := v.diff(line, before, ours); diff != "" {
		t.Errorf("%s (-%s +rdmalink):\n%s", line, v, diff)
	}
}

// diff compares what both printed, but for the known differences.
func (v rdmaVersion) diff(line string, rdma, ours output) string {
	want, got := output{Out: rdma.Out, Code: rdma.Code}, output{Out: ours.Out, Code: ours.Code}
	for _, d := range rdmaDifferences {
		if d.line.MatchString(line) && (d.only == "" || d.only == v) {
			want, got = d.right(want), d.ours(got)
		}
	}
	return cmp.Diff(want, got)
}
