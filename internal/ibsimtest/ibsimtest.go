//go:build linux

// Package ibsimtest runs the simulator ibsim, opensm and C's tools for tests.
package ibsimtest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/ib/umad"
)

// Sim is a running simulator.
type Sim struct {
	name    string // of its sockets
	preload string
	console io.WriteCloser
	udp     uint16 // port of a simulator by UDP; 0: it has Unix sockets
	output  *buffer
}

// buffer is what a process has printed.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// need skips the test if a program is missing. In CI that is a failure.
func need(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("%v; apt-get install ibsim-utils opensm infiniband-diags", err)
			}
			t.Skipf("%v; apt-get install ibsim-utils opensm infiniband-diags", err)
		}
	}
}

// preload finds umad2sim, with which C's programs attach to the simulator.
func preload(t testing.TB) string {
	t.Helper()
	dirs := append(filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")), "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
	for _, dir := range dirs {
		if path := filepath.Join(dir, "umad2sim", "libumad2sim.so"); path != "" {
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	t.Fatalf("ibsim is installed, and libumad2sim.so is not in %s", dirs)
	return ""
}

// Examples returns the topology files of ibsim's package.
func Examples(t testing.TB) []string {
	t.Helper()
	need(t, "ibsim")
	program, err := exec.LookPath("ibsim")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(program), "../share/doc/ibsim-utils/net-examples/net*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("ibsim's package has no examples: %v", err)
	}
	return files
}

// Start runs a simulator with a topology until the test ends.
func Start(t testing.TB, topology string) *Sim {
	t.Helper()
	need(t, "ibsim", "opensm", "ibnetdiscover")
	s := &Sim{name: fmt.Sprintf("goverbs%d.%d", os.Getpid(), counter()), preload: preload(t), output: &buffer{}}
	s.start(t, topology)
	return s
}

// StartUDP runs a simulator that clients reach by UDP.
func StartUDP(t testing.TB, topology string) *Sim {
	t.Helper()
	need(t, "ibsim", "opensm", "ibnetdiscover")
	s := &Sim{name: "sim", preload: preload(t), output: &buffer{}, udp: FreePorts(t)}
	s.start(t, topology, "-r", "-l", fmt.Sprint(s.udp))
	return s
}

// FreePorts returns the first of eleven UDP ports of the loopback interface that nobody has, which the
// simulator uses: one for control, and one a client.
func FreePorts(t testing.TB) uint16 {
	t.Helper()
	const clients = 10
	for range 100 {
		first, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		base := first.LocalAddr().(*net.UDPAddr).Port
		open := []*net.UDPConn{first}
		for i := 1; i <= clients && err == nil; i++ {
			var c *net.UDPConn
			if c, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: base + i}); err == nil {
				open = append(open, c)
			}
		}
		for _, c := range open {
			c.Close()
		}
		if err == nil {
			return uint16(base)
		}
	}
	t.Fatal("no eleven UDP ports in a row are free")
	return 0
}

// start runs the simulator with some options.
func (s *Sim) start(t testing.TB, topology string, options ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "net")
	if err := os.WriteFile(file, []byte(topology), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ibsim", append(options, "-s", file)...)
	cmd.Env = append(os.Environ(), "IBSIM_SOCKNAME="+s.name)
	cmd.Stdout, cmd.Stderr = s.output, s.output
	var err error
	if s.console, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	run(t, cmd, s.output)
	await(t, s.output.String, "Network simulator ready")
	s.Command(t, "") // it makes its sockets before it reads its console
	await(t, s.output.String, "sim> sim> ")
}

// Serving returns a simulator that serves already, in this process, under a name of its sockets, or at
// a UDP port of the loopback interface.
func Serving(t testing.TB, name string, udp uint16) *Sim {
	t.Helper()
	need(t, "ibsim", "opensm", "ibnetdiscover")
	return &Sim{name: name, preload: preload(t), udp: udp}
}

var (
	countMu sync.Mutex
	count   int
)

func counter() int {
	countMu.Lock()
	defer countMu.Unlock()
	count++
	return count
}

// run starts a process, which ends with the test.
func run(t testing.TB, cmd *exec.Cmd, output *buffer) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Logf("%s: %v", cmd.Path, err)
		}
		dead := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // a signal ended it
		dead.Stop()
		if t.Failed() {
			t.Logf("%s: %s", cmd.Path, output)
		}
	})
}

// await waits until a process has printed a text.
func await(t testing.TB, output func() string, text string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(output(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %q within a minute: %s", text, output())
		}
	}
}

// Config says how to attach to a node of the simulator.
func (s *Sim) Config(node string) umad.IBSim {
	c := umad.IBSim{Node: node, SockName: s.name}
	if s.udp != 0 {
		c.Server, c.ServerPort = "127.0.0.1", s.udp
	}
	return c
}

// Command types a command into the simulator's console.
func (s *Sim) Command(t testing.TB, command string) {
	t.Helper()
	if _, err := io.WriteString(s.console, command+"\n"); err != nil {
		t.Fatal(err)
	}
}

// env is the environment of a C program at a node.
func (s *Sim) env(node, dir string) []string {
	env := os.Environ()
	if s.udp != 0 {
		env = append(env, "IBSIM_SERVER_NAME=127.0.0.1", fmt.Sprintf("IBSIM_SERVER_PORT=%d", s.udp))
	}
	return append(env, "LD_PRELOAD="+s.preload, "IBSIM_SOCKNAME="+s.name, "SIM_HOST="+node, "OSM_TMP_DIR="+dir, "OSM_CACHE_DIR="+dir)
}

// OpenSM runs opensm at a node until the test ends, and returns when the subnet is up.
func (s *Sim) OpenSM(t testing.TB, node string) {
	t.Helper()
	dir := t.TempDir()
	output := &buffer{}
	log := filepath.Join(dir, "log")
	config := filepath.Join(dir, "opensm.conf")
	if err := os.WriteFile(config, []byte("force_log_flush TRUE\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("opensm", "-F", config, "-f", log)
	cmd.Dir = dir
	cmd.Env = s.env(node, dir)
	cmd.Stdout, cmd.Stderr = output, output
	run(t, cmd, output)
	await(t, func() string {
		b, _ := os.ReadFile(log) // it may not exist yet
		return output.String() + string(b)
	}, "SUBNET UP")
}

// Tool runs a C tool at a node, and returns its output. If the tool times out, Tool runs it again, up
// to three times, because a busy machine may leave the simulator without a CPU.
func (s *Sim) Tool(t testing.TB, node, tool string, args ...string) string {
	t.Helper()
	out, stderr, code := s.Run(t, node, tool, args...)
	for n := 0; n < 3 && code != 0 && strings.Contains(stderr, "timed out"); n++ {
		out, stderr, code = s.Run(t, node, tool, args...)
	}
	if code != 0 {
		t.Fatalf("%s %v: exit code %d: %s%s", tool, args, code, out, stderr)
	}
	return out
}

// Run runs a C tool at a node, and returns what it printed and its exit code.
func (s *Sim) Run(t testing.TB, node, tool string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	need(t, tool)
	dir := t.TempDir()
	cmd := exec.Command(tool, args...)
	cmd.Dir = dir
	cmd.Env = s.env(node, dir)
	var out, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errors
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatalf("%s %v: %v", tool, args, err)
	}
	return out.String(), errors.String(), cmd.ProcessState.ExitCode()
}
