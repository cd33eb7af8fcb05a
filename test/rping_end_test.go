//go:build vm

package test

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// lingering is how long C's rping may take to end when the connection has ended.
// It then waits for a last event, which siw loses now and then.
const lingering = 10 * time.Second

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
		if ended = r.over(); since.IsZero() && strings.Contains(r.err.soFar(), "DISCONNECT EVENT") {
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

// rpingEnds waits for both, for ours first, and tells whether all that they printed
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
