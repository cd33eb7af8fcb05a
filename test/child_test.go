//go:build vm

package test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
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

// child returns a command that runs this binary in a role.
func child(role string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	return cmd
}

// process is a running command whose output the test reads line by line. It is
// killed when the test ends or takes too long.
type process struct {
	*exec.Cmd
	out    *bufio.Reader
	stderr strings.Builder
}

func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{Cmd: cmd}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out, cmd.Stderr = bufio.NewReader(out), &p.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(2*patience, func() { cmd.Process.Kill() })
	t.Cleanup(func() {
		late.Stop()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return p
}

// line reads one line of its output.
func (p *process) line(t *testing.T) string {
	t.Helper()
	text, err := p.out.ReadString('\n')
	if err != nil {
		p.Wait()
		t.Fatalf("%v: %v after %q\n%s", p.Args, err, text, &p.stderr)
	}
	return strings.TrimSuffix(text, "\n")
}

// finish waits for success and returns the rest of its output.
func (p *process) finish(t *testing.T) string {
	t.Helper()
	rest, _ := io.ReadAll(p.out)
	if err := p.Wait(); err != nil {
		t.Fatalf("%v: %v\n%s%s", p.Args, err, rest, &p.stderr)
	}
	return string(rest)
}
