//go:build vm

package test

import (
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// running is a command under way. It is killed when it takes too long, and when
// the test ends.
type running struct {
	*exec.Cmd
	t        *testing.T
	out, err *transcript
	late     *time.Timer
}

func launch(t *testing.T, cmd *exec.Cmd) *running {
	t.Helper()
	r := &running{Cmd: cmd, t: t}
	stdout, outErr := cmd.StdoutPipe()
	stderr, errErr := cmd.StderrPipe()
	if outErr != nil || errErr != nil {
		t.Fatal(outErr, errErr)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.out, r.err = newTranscript(stdout), newTranscript(stderr)
	r.within(2 * patience)
	t.Cleanup(func() {
		r.late.Stop()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return r
}

// within fails the test if the command does not end in time from now on.
func (r *running) within(limit time.Duration) {
	if r.late != nil {
		r.late.Stop()
	}
	r.late = time.AfterFunc(limit, func() {
		r.t.Errorf("%v: not done after %v", r.Args, limit)
		r.Process.Kill()
	})
}

// listens waits until a server is ready, or has failed.
func (r *running) listens(ready func() bool) {
	r.t.Helper()
	if !eventually(func() bool { return ready() || r.over() }) || !ready() {
		r.Process.Kill()
		r.t.Fatalf("%v does not listen: %+v", r.Args, r.end())
	}
}

// over reports whether the command has ended, or at least closed its output.
func (r *running) over() bool {
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	return r.out.ended
}

// end waits for the command and returns its result.
func (r *running) end() output {
	out, err := r.out.all(), r.err.all()
	r.Wait()
	r.late.Stop()
	return output{out, err, r.ProcessState.ExitCode()}
}

// brief describes a result in one line.
func (r *running) brief(o output) string {
	lines := strings.Split(strings.TrimSuffix(o.Out, "\n"), "\n")
	last := lines[len(lines)-1]
	return fmt.Sprintf("%q: exit code %d, %d lines, the last %.40q, %q", r.Args, o.Code, len(lines), last, o.Err)
}

// until waits for a line with this in it.
func (r *running) until(text string) {
	r.t.Helper()
	for {
		line, err := r.out.ReadString('\n')
		if err == io.EOF {
			r.t.Fatalf("no %q from %s", text, r.brief(r.end()))
		}
		if strings.Contains(line, text) {
			return
		}
	}
}
