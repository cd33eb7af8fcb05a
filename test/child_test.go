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

// roleVariable tells this test binary to be something else than a test.
const roleVariable = "GOVERBS_TEST_ROLE"

// roles are what a child can play.
var roles = map[string]func(args []string) error{
	"victim":           victim,
	"memory too big":   registerTooMuch,
	"memory on demand": registerOnDemand,
	"privileged Q_Key": takePrivilegedQKey,
	"new user":         changeUser,
	"rxe new user":     rxeChangeUser,
	"open":             openBoth,
	"rxe passed":       rxePassed,
	"rxe victim":       rxeVictim,
	"msg victim":       msgVictim,
	"msg listener":     msgListener,
	"msg mirror":       msgMirror,
	"msg large victim": msgLargeVictim,
	"silent listener":  silentListener,
}

// play carries out a role, with the arguments of the process.
func play(role string) int {
	if err := roles[role](os.Args[1:]); err != nil {
		os.Stderr.WriteString(role + ": " + err.Error() + "\n")
		return 1
	}
	return 0
}

// child is this binary in another role.
func child(role string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	return cmd
}

// process is a command that talks while it runs. It is killed when the test
// ends, or takes too long.
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

// line reads one line of what it prints.
func (p *process) line(t *testing.T) string {
	t.Helper()
	text, err := p.out.ReadString('\n')
	if err != nil {
		p.Wait()
		t.Fatalf("%v: %v after %q\n%s", p.Args, err, text, &p.stderr)
	}
	return strings.TrimSuffix(text, "\n")
}

// finish waits for success and returns the rest of what it printed.
func (p *process) finish(t *testing.T) string {
	t.Helper()
	rest, _ := io.ReadAll(p.out)
	if err := p.Wait(); err != nil {
		t.Fatalf("%v: %v\n%s%s", p.Args, err, rest, &p.stderr)
	}
	return string(rest)
}
