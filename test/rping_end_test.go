//go:build vm

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// lingering is how long C's rping may sleep once the connection has ended, before it
// ends. It then waits for a last event, which siw loses now and then.
const lingering = 2 * time.Second

// rpingEnd waits for an end of rping. C's that knows of the end of the connection,
// and does not end, is killed and has ended well as far as it goes: whole is false,
// for its last lines may be missing.
func rpingEnd(r *running) (out output, whole bool) {
	if !isCRping(r) {
		return r.end(), true
	}
	var since time.Time
	ended := false
	known := eventually(func() bool {
		switch ended = r.over(); {
		case ended:
		case !asleep(r.Process.Pid):
			since = time.Time{}
		case since.IsZero() && strings.Contains(r.err.soFar(), "DISCONNECT EVENT"):
			since = time.Now()
		}
		return ended || !since.IsZero() && time.Since(since) > lingering
	})
	if ended {
		return r.end(), true
	}
	r.Process.Kill()
	if out = r.end(); known {
		out.Code = 0
	}
	return out, false
}

// asleep reports whether all threads of a process sleep. One that wants the CPU and does not
// get it on a busy machine doesn't.
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

func isCRping(r *running) bool {
	words := strings.Join(r.Args, " ")
	return strings.HasPrefix(words, "rping ") || strings.Contains(words, " rping ") && !strings.Contains(words, "rdmalink rping ")
}

// pinged are the two ends of a run, which have to end well. C prints its farewell
// on stderr, we nothing.
func pinged(t *testing.T, server, client *running) (serverOut, clientOut output) {
	t.Helper()
	serverOut, clientOut, _ = rpingEnds(server, client)
	wellPinged(t, server, serverOut)
	wellPinged(t, client, clientOut)
	return serverOut, clientOut
}

// rpingEnds waits for both, for ours first, and reports whether all that they printed
// is there.
func rpingEnds(server, client *running) (serverOut, clientOut output, whole bool) {
	ends := []struct {
		*running
		out *output
	}{{client, &clientOut}, {server, &serverOut}}
	if isCRping(client) {
		slices.Reverse(ends)
	}
	whole = true
	for _, e := range ends {
		var all bool
		*e.out, all = rpingEnd(e.running)
		whole = whole && all
	}
	return serverOut, clientOut, whole
}

func wellPinged(t *testing.T, r *running, out output) {
	t.Helper()
	ours := !isCRping(r) && r.Args[0] != "ip"
	if out.Code != 0 || ours && out.Err != "" || strings.Contains(out.Err, "mismatch") {
		t.Error(r.brief(out))
	}
}
