package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// stage is an environment variable that turns rdmalink into the process between the
// supervisor and the command: it installs the filter and executes the command. Its value is
// the number of the socket to the supervisor.
const stage = "RDMALINK_SANDBOX_SOCKET"

// launched is a process that is under the filter and waits for leave to become the command.
type launched struct {
	process  int
	thread   int // of the process: the thread that becomes the command
	listener int // the descriptor of its notifications
	socket   *os.File
}

// start starts a command under the filter.
func start(c *exec.Cmd) (*launched, error) {
	name, err := exec.LookPath(c.Args[0])
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "sandbox"), os.NewFile(uintptr(pair[1]), "sandbox")
	c.Path = "/proc/self/exe"
	c.Args = append([]string{os.Args[0], "sandbox", "--", name}, c.Args...)
	c.Env = append(os.Environ(), stage+"=3")
	c.ExtraFiles = []*os.File{theirs}
	err = c.Start()
	theirs.Close()
	if err != nil {
		ours.Close()
		return nil, err
	}
	l := &launched{process: c.Process.Pid, socket: ours}
	if err := l.take(); err != nil {
		l.giveUp(c)
		return nil, err
	}
	return l, nil
}

// take receives the message of become: its thread and a descriptor, or an error.
func (l *launched) take() error {
	text, control := make([]byte, 1024), make([]byte, unix.CmsgSpace(4))
	n, c, _, _, err := unix.Recvmsg(int(l.socket.Fd()), text, control, unix.MSG_CMSG_CLOEXEC)
	switch {
	case err != nil:
		return err
	case c == 0 && n == 0:
		return io.ErrUnexpectedEOF
	case c == 0:
		return errors.New(string(text[:n]))
	}
	messages, err := unix.ParseSocketControlMessage(control[:c])
	if err != nil {
		return err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return err
	}
	l.listener = fds[0]
	l.thread, err = strconv.Atoi(string(text[:n]))
	return err
}

// release lets the process continue.
func (l *launched) release() {
	_, _ = unix.Write(int(l.socket.Fd()), []byte{0})
	l.socket.Close()
}

func (l *launched) giveUp(c *exec.Cmd) {
	l.socket.Close()
	_ = c.Process.Kill()
	_ = c.Wait()
}

// become installs the filter and executes the command. It returns only on failure. words are
// the path of the program, and its arguments.
func become(words []string) error {
	const socket = 3
	unix.CloseOnExec(socket)
	runtime.LockOSThread()
	err := enter(socket)
	if err == nil {
		err = syscall.Exec(words[0], words[1:], without(os.Environ(), stage))
		return fmt.Errorf("%s: %w", words[0], err)
	}
	_ = unix.Sendmsg(socket, []byte(err.Error()), nil, nil, 0)
	return err
}

// enter puts this thread, which becomes the command, under the filter.
func enter(socket int) error {
	if err := allowDescriptors(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl(PR_SET_NO_NEW_PRIVS): %w", err)
	}
	listener, err := install(program(auditArch, rules()), unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	if err == unix.EINVAL { // before Linux 5.19
		listener, err = install(program(auditArch, rules()), unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	}
	if err != nil {
		return explain(err)
	}
	if err := unix.Sendmsg(socket, []byte(strconv.Itoa(unix.Gettid())), unix.UnixRights(listener), nil, 0); err != nil {
		return err
	}
	_, err = unix.Read(socket, make([]byte, 1)) // leave
	return err
}

// explain returns the error for a filter that could not be installed.
func explain(err error) error {
	switch err {
	case unix.EINVAL, unix.ENOSYS:
		return fmt.Errorf("seccomp: %w: the kernel is older than 5.9, or built without SECCOMP_FILTER", err)
	case unix.EBUSY:
		return fmt.Errorf("seccomp: %w: a supervisor listens already; sandboxes can't be nested", err)
	case unix.EPERM, unix.EACCES:
		return fmt.Errorf("seccomp: %w: whatever runs this forbids seccomp, as some containers do (docker run --security-opt seccomp=unconfined)", err)
	}
	return fmt.Errorf("seccomp: %w", err)
}

// allowDescriptors sees that our descriptors' numbers are allowed.
func allowDescriptors() error {
	const enough = firstFD + 124
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return err
	}
	if l.Max < enough {
		return fmt.Errorf("the limit of open files is %d, but must be at least %d (ulimit -n)", l.Max, enough)
	}
	// syscall, because Go restores the original limit unless it is set this way.
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: max(l.Cur, enough), Max: l.Max})
}

func without(env []string, name string) []string {
	var kept []string
	for _, v := range env {
		if !strings.HasPrefix(v, name+"=") {
			kept = append(kept, v)
		}
	}
	return kept
}
