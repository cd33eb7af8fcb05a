package top

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal returns the two ends of a pseudo-terminal.
func terminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { user.Close() })
	fd := int(user.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 12, Col: 60})
	}
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { program.Close() })
	return user, program
}

// TestTerminal runs top on a terminal until q is pressed, and checks that it restores the terminal's mode.
func TestTerminal(t *testing.T) {
	user, program := terminal(t)
	before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	tool, _ := machine()
	tool.Stdin, tool.Stdout, tool.Stderr = program, program, io.Discard
	if _, err := user.WriteString(">rq"); err != nil {
		t.Fatal(err)
	}
	shown := make(chan string)
	go func() {
		var all strings.Builder
		buf := make([]byte, 4096)
		for !strings.Contains(all.String(), leave) {
			n, err := user.Read(buf)
			all.Write(buf[:n])
			if err != nil {
				break
			}
		}
		shown <- all.String()
	}()
	if code := tool.Run(t.Context(), commandAlone(), []string{"top"}); code != 0 {
		t.Error(code)
	}
	out := <-shown
	for _, want := range []string{enter, inverse + "DEVICE", "sorted by qp", "sorted by cq", "rxe0/1", leave} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %q", want, out)
		}
	}
	if after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS); err != nil || *after != *before {
		t.Error(after, err)
	}
}
