package top

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
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

// role is set in the processes of TestStopped.
const role = "RDMALINK_TOP_ROLE"

// self runs this test program in a role, on the terminal of stdin.
func self(name string, stdin *os.File, attr *syscall.SysProcAttr) *exec.Cmd {
	c := exec.Command(os.Args[0], "-test.run=^TestStopped$")
	c.Env = append(os.Environ(), role+"="+name)
	c.Stdin, c.Stdout, c.Stderr, c.SysProcAttr = stdin, stdin, stdin, attr
	return c
}

// shell runs top as a shell does: it continues top when top has stopped, and says whether the terminal
// was as before then. It returns the exit code.
func shell() int {
	before, err := unix.IoctlGetTermios(0, unix.TCGETS)
	if err != nil {
		return 2
	}
	c := self("top", os.Stdin, &syscall.SysProcAttr{Setpgid: true, Foreground: true, Ctty: 0})
	if err := c.Start(); err != nil {
		return 3
	}
	for {
		var status unix.WaitStatus
		if _, err := unix.Wait4(c.Process.Pid, &status, unix.WUNTRACED, nil); err != nil {
			return 4
		}
		if !status.Stopped() {
			return status.ExitStatus()
		}
		now, err := unix.IoctlGetTermios(0, unix.TCGETS)
		if err != nil {
			return 5
		}
		fmt.Printf("[stopped, restored: %v]", *now == *before)
		if err := c.Process.Signal(syscall.SIGCONT); err != nil {
			return 6
		}
	}
}

// TestStopped presses Ctrl-Z twice. Below a shell, top stops, the shell has the terminal as it was,
// and top prepares it again. Without a shell, top goes on.
func TestStopped(t *testing.T) {
	switch os.Getenv(role) {
	case "shell":
		os.Exit(shell())
	case "top":
		tool, _ := machine()
		tool.Stdin, tool.Stdout, tool.Stderr = os.Stdin, os.Stdout, os.Stderr
		os.Exit(tool.Run(t.Context(), commandAlone(), []string{"top"}))
	}
	for leader, stops := range map[string]string{"shell": "[stopped, restored: true]", "top": ""} {
		t.Run(leader, func(t *testing.T) {
			user, program := terminal(t)
			termios := func() unix.Termios {
				t.Helper()
				now, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
				if err != nil {
					t.Fatal(err)
				}
				return *now
			}
			before := termios()
			c := self(leader, program, &syscall.SysProcAttr{Setsid: true, Setctty: true})
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			end := make(chan error, 1)
			defer func() {
				_ = c.Process.Kill()
				<-end
			}()
			go func() { end <- c.Wait() }()
			// until reads the output of top until it contains the text.
			until := func(text string) {
				t.Helper()
				var all []byte
				buf := make([]byte, 1)
				for !strings.HasSuffix(string(all), text) {
					if _, err := user.Read(buf); err != nil {
						t.Fatalf("%v after %q", err, all)
					}
					all = append(all, buf[0])
				}
			}
			press := func(key string) {
				t.Helper()
				if _, err := user.WriteString(key); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				until(enter)
				until("rxe0/1")
				if now := termios(); now.Lflag&(unix.ICANON|unix.ECHO) != 0 || now.Lflag&unix.ISIG == 0 {
					t.Errorf("%+v", now)
				}
				press("\x1a")
				until(leave)
				until(stops)
			}
			until(enter)
			until("rxe0/1")
			press("q")
			until(leave)
			go func() { _, _ = io.Copy(io.Discard, user) }()
			err := <-end
			end <- nil
			if err != nil {
				t.Error(err)
			}
			if now := termios(); now != before {
				t.Errorf("%+v", now)
			}
		})
	}
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
