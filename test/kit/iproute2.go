//go:build vm

package kit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/test/rig"
)

// RDMAVersion is a version of iproute2's rdma.
type RDMAVersion string

const (
	DebianRDMA RDMAVersion = "iproute2 6.1"    // Debian 12's
	NewerRDMA  RDMAVersion = "iproute2, newer" // of its backports
)

// Run runs a command line of rdma.
func (v RDMAVersion) Run(t *testing.T, line string) Output {
	t.Helper()
	if inMemory[v] == nil {
		inMemory[v] = toMemory(t, v)
	}
	return RunCommand(t, exec.Command(inMemory[v][0], append(inMemory[v][1:], strings.Fields(line)...)...))
}

// inMemory is how to start them: half the time of a start from the host's
// files is that of loading libraries.
var inMemory = make(map[RDMAVersion][]string)

// toMemory copies a version of rdma and its libraries into memory and returns how to start it.
func toMemory(t *testing.T, v RDMAVersion) []string {
	t.Helper()
	program := Must(exec.LookPath("rdma"))(t)
	if v == NewerRDMA {
		program = Must(rig.NewerRDMA())(t)
	}
	dir := Must(os.MkdirTemp("", "rdma"))(t)
	Sh(t, fmt.Sprintf("cp %[1]s $(ldd %[1]s | grep -o '/[^ ]*') %[2]s", program, dir))
	loader := Must(filepath.Glob(dir + "/ld-linux*"))(t)
	return []string{loader[0], "--library-path", dir, filepath.Join(dir, "rdma")}
}
