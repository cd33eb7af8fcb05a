package top

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// openScreen prepares the terminal, so that keys arrive one by one and are not echoed. Ctrl-C still
// interrupts the program. openScreen fails if stdout is not a terminal.
func openScreen(stdin io.Reader, stdout io.Writer) (*screen, error) {
	out, ok := stdout.(*os.File)
	if !ok {
		return nil, unix.ENOTTY
	}
	fd := int(out.Fd())
	if _, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err != nil {
		return nil, err
	}
	s := &screen{out: stdout, restore: func() {}, size: func() (columns, rows int) {
		w, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err != nil || w.Col == 0 || w.Row == 0 {
			return 80, 24
		}
		return int(w.Col), int(w.Row)
	}}
	if in, ok := stdin.(*os.File); ok {
		keys := int(in.Fd())
		if was, err := unix.IoctlGetTermios(keys, unix.TCGETS); err == nil {
			now := *was
			now.Lflag &^= unix.ICANON | unix.ECHO
			now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 0, 1 // a read waits for at most 0.1 s
			if err := unix.IoctlSetTermios(keys, unix.TCSETS, &now); err != nil {
				return nil, err
			}
			s.in, s.restore = in, func() { _ = unix.IoctlSetTermios(keys, unix.TCSETS, was) }
		}
	}
	if _, err := io.WriteString(out, enter); err != nil {
		s.restore()
		return nil, err
	}
	return s, nil
}
