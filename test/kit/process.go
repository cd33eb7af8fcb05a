//go:build vm

package kit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// roleVariable names the role that this process plays instead of running tests.
const roleVariable = "GOVERBS_TEST_ROLE"

// roles holds the roles that a child can play, by name.
var roles map[string]func(args []string) error

// play plays a role, with the arguments of the process.
func play(role string) int {
	if err := roles[role](os.Args[1:]); err != nil {
		os.Stderr.WriteString(role + ": " + err.Error() + "\n")
		return 1
	}
	return 0
}

// Child returns a command that runs this binary in a role.
func Child(role string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	return cmd
}

// Process is a running command whose output the test reads line by line. It is
// killed when the test ends or takes too long.
type Process struct {
	*exec.Cmd
	out    *bufio.Reader
	Stderr strings.Builder
}

// Start starts a command whose output the test reads line by line.
func Start(t *testing.T, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Cmd: cmd}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out, cmd.Stderr = bufio.NewReader(out), &p.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(2*Patience, func() { cmd.Process.Kill() })
	t.Cleanup(func() {
		late.Stop()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return p
}

// Line reads one line of its output.
func (p *Process) Line(t *testing.T) string {
	t.Helper()
	text, err := p.out.ReadString('\n')
	if err != nil {
		p.Wait()
		t.Fatalf("%v: %v after %q\n%s", p.Args, err, text, &p.Stderr)
	}
	return strings.TrimSuffix(text, "\n")
}

// Finish waits for success and returns the rest of its output.
func (p *Process) Finish(t *testing.T) string {
	t.Helper()
	rest, _ := io.ReadAll(p.out)
	if err := p.Wait(); err != nil {
		t.Fatalf("%v: %v\n%s%s", p.Args, err, rest, &p.Stderr)
	}
	return string(rest)
}

// Output is the result of a command.
type Output struct {
	Out, Err string
	Code     int
}

// RunCommand runs a command to its end. Any exit code will do.
func RunCommand(t *testing.T, cmd *exec.Cmd) Output {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return Output{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// Running is a running command. It is killed when it takes too long and when
// the test ends.
type Running struct {
	*exec.Cmd
	T        *testing.T
	Out, Err *transcript
	Late     *time.Timer
}

// Launch starts a command and collects its output.
func Launch(t *testing.T, cmd *exec.Cmd) *Running {
	t.Helper()
	r := &Running{Cmd: cmd, T: t}
	stdout, outErr := cmd.StdoutPipe()
	stderr, errErr := cmd.StderrPipe()
	if outErr != nil || errErr != nil {
		t.Fatal(outErr, errErr)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Out, r.Err = newTranscript(stdout), newTranscript(stderr)
	r.within(2 * Patience)
	t.Cleanup(func() {
		r.Late.Stop()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return r
}

// within fails the test if the command does not end in time from now on.
func (r *Running) within(limit time.Duration) {
	if r.Late != nil {
		r.Late.Stop()
	}
	r.Late = time.AfterFunc(limit, func() {
		r.T.Errorf("%v: not done after %v", r.Args, limit)
		r.Process.Kill()
	})
}

// Listens waits until ready returns true, and fails the test if the server ends before.
func (r *Running) Listens(ready func() bool) {
	r.T.Helper()
	if !Eventually(func() bool { return ready() || r.Over() }) || !ready() {
		r.Process.Kill()
		r.T.Fatalf("%v does not listen: %+v", r.Args, r.End())
	}
}

// Over reports whether the command has ended, or at least closed its output.
func (r *Running) Over() bool {
	r.Out.mu.Lock()
	defer r.Out.mu.Unlock()
	return r.Out.ended
}

// End waits for the command and returns its result.
func (r *Running) End() Output {
	out, err := r.Out.all(), r.Err.all()
	r.Wait()
	r.Late.Stop()
	return Output{out, err, r.ProcessState.ExitCode()}
}

// Brief describes the command and its result in one line.
func (r *Running) Brief(o Output) string {
	lines := strings.Split(strings.TrimSuffix(o.Out, "\n"), "\n")
	last := lines[len(lines)-1]
	return fmt.Sprintf("%q: exit code %d, %d lines, the last %.40q, %q", r.Args, o.Code, len(lines), last, o.Err)
}

// Until waits for a line that contains text.
func (r *Running) Until(text string) {
	r.T.Helper()
	for {
		line, err := r.Out.ReadString('\n')
		if err == io.EOF {
			r.T.Fatalf("no %q from %s", text, r.Brief(r.End()))
		}
		if strings.Contains(line, text) {
			return
		}
	}
}

// transcript collects the output of a command, so that the command never waits
// for a reader; readers may wait for it.
type transcript struct {
	mu    sync.Mutex
	grown sync.Cond
	text  []byte
	read  int // how far ReadString has come
	ended bool
}

func newTranscript(r io.Reader) *transcript {
	tr := &transcript{}
	tr.grown.L = &tr.mu
	go func() {
		io.Copy(tr, r)
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.ended = true
		tr.grown.Broadcast()
	}()
	return tr
}

func (tr *transcript) Write(b []byte) (int, error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.text = append(tr.text, b...)
	tr.grown.Broadcast()
	return len(b), nil
}

// SoFar returns the output so far.
func (tr *transcript) SoFar() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return string(tr.text)
}

// all waits for the end and returns everything.
func (tr *transcript) all() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for !tr.ended {
		tr.grown.Wait()
	}
	return string(tr.text)
}

// ReadString waits for the next end byte and returns the output up to it.
func (tr *transcript) ReadString(end byte) (string, error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for {
		if i := bytes.IndexByte(tr.text[tr.read:], end); i >= 0 {
			line := tr.text[tr.read : tr.read+i+1]
			tr.read += len(line)
			return string(line), nil
		}
		if tr.ended {
			rest := string(tr.text[tr.read:])
			tr.read = len(tr.text)
			return rest, io.EOF
		}
		tr.grown.Wait()
	}
}
