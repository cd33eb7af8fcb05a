//go:build vm

package kit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// PingpongPort is the default port of the pingpong programs.
const PingpongPort = 18515

// lingering is how long C's rping may sleep between the end of the connection and its
// exit. It waits for a last event, which siw loses now and then.
const lingering = 2 * time.Second

// RpingEnd waits for an rping to exit. If C's rping has printed the end of the connection
// and does not exit, it is killed. That counts as success, but whole is false, because its
// last lines may be missing.
func RpingEnd(r *Running) (out Output, whole bool) {
	if !IsCRping(r) {
		return r.End(), true
	}
	var since time.Time
	ended := false
	known := Eventually(func() bool {
		switch ended = r.Over(); {
		case ended:
		case !asleep(r.Process.Pid):
			since = time.Time{}
		case since.IsZero() && strings.Contains(r.Err.SoFar(), "DISCONNECT EVENT"):
			since = time.Now()
		}
		return ended || !since.IsZero() && time.Since(since) > lingering
	})
	if ended {
		return r.End(), true
	}
	r.Process.Kill()
	if out = r.End(); known {
		out.Code = 0
	}
	return out, false
}

// asleep reports whether all threads of a process sleep. A thread that waits for a CPU on a
// busy machine does not.
func asleep(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, file := range threads {
		text, _ := os.ReadFile(file)
		if _, state, found := strings.Cut(string(text), ") "); found && !strings.HasPrefix(state, "S") {
			return false
		}
	}
	return len(threads) > 0
}

// IsCRping reports whether a command is rdma-core's rping.
func IsCRping(r *Running) bool {
	words := strings.Join(r.Args, " ")
	return strings.HasPrefix(words, "rping ") || strings.Contains(words, " rping ") && !strings.Contains(words, "rdmalink rping ")
}

// Pinged waits for the two ends of a run, which must succeed. C prints a last line
// on stderr, ours prints nothing there.
func Pinged(t *testing.T, server, client *Running) (serverOut, clientOut Output) {
	t.Helper()
	serverOut, clientOut, _ = rpingEnds(server, client)
	wellPinged(t, server, serverOut)
	wellPinged(t, client, clientOut)
	return serverOut, clientOut
}

// rpingEnds waits for both, for ours first, and reports whether all that they printed
// is there.
func rpingEnds(server, client *Running) (serverOut, clientOut Output, whole bool) {
	ends := []struct {
		*Running
		out *Output
	}{{client, &clientOut}, {server, &serverOut}}
	if IsCRping(client) {
		slices.Reverse(ends)
	}
	whole = true
	for _, e := range ends {
		var all bool
		*e.out, all = RpingEnd(e.Running)
		whole = whole && all
	}
	return serverOut, clientOut, whole
}

// wellPinged checks the exit code and the output of an rping.
func wellPinged(t *testing.T, r *Running, out Output) {
	t.Helper()
	ours := !IsCRping(r) && r.Args[0] != "ip"
	if out.Code != 0 || ours && out.Err != "" || strings.Contains(out.Err, "mismatch") {
		t.Error(r.Brief(out))
	}
}

// Rpings lists the versions of rping that have to work with each other.
var Rpings = map[string][]string{
	"C":       {"rping"},
	"Go":      {RdmalinkBin, "rping"},
	"Go poll": {RdmalinkBin, "rping", "--poll"},
}

// Rping returns a command that runs a version of rping.
func Rping(program, line string) *exec.Cmd {
	words := append(Rpings[program], strings.Fields(line)...)
	return exec.Command(words[0], words[1:]...)
}

// ServePort starts a server and waits until it listens on a TCP port.
func ServePort(t *testing.T, cmd *exec.Cmd, port int) *Running {
	t.Helper()
	server := Launch(t, cmd)
	server.Listens(func() bool { return Listening(server.Process.Pid, port) })
	return server
}

// Listening reports whether a TCP port is open in the network namespace of a process;
// those of siw are among them.
func Listening(pid, port int) bool {
	local := fmt.Sprintf(":%04X ", port)
	for _, table := range []string{"tcp", "tcp6"} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		for line := range strings.Lines(string(text)) {
			if before, after, ok := strings.Cut(line, local); ok && len(before) < 40 && strings.Contains(after, " 0A ") {
				return true
			}
		}
	}
	return false
}

// RpingText returns the output of server and client. It runs them again if the last lines of a C
// program may be missing, and if two C programs hang: a race in siw can delay the first message
// for ever.
func RpingText(t *testing.T, serve func(*testing.T, *exec.Cmd) *Running, server, client, line, addr string) [2]string {
	t.Helper()
	for range 5 {
		s := serve(t, Rping(server, "-s "+line+" -a "+addr))
		c := Launch(t, Rping(client, "-c -V "+line+" -a "+addr))
		bothC := server == "C" && client == "C"
		if bothC {
			late := time.AfterFunc(RetryTimeout, func() { s.Process.Kill(); c.Process.Kill() })
			defer late.Stop()
		}
		serverOut, clientOut, whole := rpingEnds(s, c)
		if !whole || bothC && (serverOut.Code != 0 || clientOut.Code != 0) {
			t.Logf("%s\n%s", s.Brief(serverOut), c.Brief(clientOut))
			continue
		}
		wellPinged(t, s, serverOut)
		wellPinged(t, c, clientOut)
		return [2]string{serverOut.Out, clientOut.Out}
	}
	t.Fatal("C's rping hung five times")
	return [2]string{}
}
