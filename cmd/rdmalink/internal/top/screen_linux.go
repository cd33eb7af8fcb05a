package top

import (
	"io"
	"os"
	"os/signal"
	"runtime"

	"golang.org/x/sys/unix"
)

// openScreen prepares the terminal, so that keys arrive one by one and are not echoed. Ctrl-C still
// interrupts the program, and Ctrl-Z still stops it. openScreen fails if stdout is not a terminal.
func openScreen(stdin io.Reader, stdout io.Writer) (*screen, error) {
	out, ok := stdout.(*os.File)
	if !ok {
		return nil, unix.ENOTTY
	}
	fd := int(out.Fd())
	if _, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err != nil {
		return nil, err
	}
	s := &screen{out: stdout, size: func() (columns, rows int) {
		w, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err != nil || w.Col == 0 || w.Row == 0 {
			return 80, 24
		}
		return int(w.Col), int(w.Row)
	}}
	prepare, restore := func() error { return nil }, func() {}
	if in, ok := stdin.(*os.File); ok {
		keys := int(in.Fd())
		if was, err := unix.IoctlGetTermios(keys, unix.TCGETS); err == nil {
			now := *was
			now.Lflag &^= unix.ICANON | unix.ECHO
			now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 0, 0
			s.in = keyboard(keys)
			prepare = func() error { return unix.IoctlSetTermios(keys, unix.TCSETS, &now) }
			restore = func() { _ = unix.IoctlSetTermios(keys, unix.TCSETS, was) }
		}
	}
	open := func() error {
		if err := prepare(); err != nil {
			return err
		}
		_, err := io.WriteString(out, enter)
		if err != nil {
			restore()
		}
		return err
	}
	s.signals = make(chan os.Signal, 2)
	signal.Notify(s.signals, unix.SIGTSTP, unix.SIGCONT)
	s.restore = func() {
		signal.Stop(s.signals)
		restore()
	}
	s.job = func(sig os.Signal) error {
		if sig == unix.SIGTSTP {
			_, _ = io.WriteString(out, leave)
			restore()
			if err := stop(); err != nil {
				return err
			}
		}
		return open() // the shell has set the terminal for itself meanwhile
	}
	if err := open(); err != nil {
		signal.Stop(s.signals)
		return nil, err
	}
	return s, nil
}

// stop stops this process until a shell continues it. It returns at once if there is no shell that
// could: the kernel ignores signals of the terminal then. The signal is SIGTTOU because Go's runtime
// does not give SIGTSTP its default action back.
func stop() error {
	runtime.LockOSThread() // the signal arrives before the call returns
	defer runtime.UnlockOSThread()
	return unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGTTOU)
}

// keyboard is the descriptor of a terminal.
type keyboard int

// Read waits for a tenth of a second at most. It reads only what has arrived: while this process is
// about to stop, the terminal has lines, and a read of one would wait for its end.
func (k keyboard) Read(b []byte) (int, error) {
	fds := []unix.PollFd{{Fd: int32(k), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 100)
	if err == nil && n == 0 || err == unix.EINTR {
		return 0, io.EOF
	}
	if err == nil {
		n, err = unix.Read(int(k), b)
	}
	return max(n, 0), err
}
