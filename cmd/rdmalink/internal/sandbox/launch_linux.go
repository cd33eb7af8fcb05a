package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// stage is an environment variable that turns rdmalink into one of the processes between the supervisor and
// the command.
const (
	stage    = "RDMALINK_SANDBOX_STAGE"
	guarding = "guard"   // see runGuard
	becoming = "command" // see become
)

// socketFD is the descriptor of a socket in these processes: the guard's leads to the supervisor, and the other one's
// to the guard.
const socketFD = 3

// between is the main program of these processes. words are the path of the command's program, and its
// arguments.
func between(words []string) error {
	unix.CloseOnExec(socketFD)
	runtime.LockOSThread()
	if os.Getenv(stage) == guarding {
		return runGuard()
	}
	return become(words)
}

// launched is a process that is under the filter and waits for release to become the command.
type launched struct {
	guard    *exec.Cmd
	socket   *os.File
	thread   int // that becomes the command
	command  *os.Process
	listener int // the descriptor of its notifications
}

// start starts a command under the filter, as a child of a guard. If there are hosts, an interface has their addresses.
func start(c *exec.Cmd, hosts []*machine) (*launched, error) {
	name, err := exec.LookPath(c.Args[0])
	if err != nil {
		return nil, err
	}
	ours, theirs, err := sockets()
	if err != nil {
		return nil, err
	}
	c.Path = "/proc/self/exe"
	c.Args = append([]string{os.Args[0], "sandbox", "--", name}, c.Args...)
	c.Env = append(os.Environ(), stage+"="+guarding)
	c.ExtraFiles = []*os.File{theirs}
	if len(hosts) > 0 {
		unshare(c, hosts)
	}
	err = c.Start()
	if err != nil && len(hosts) > 0 {
		err = explainUnshare(err)
	}
	theirs.Close()
	if err != nil {
		ours.Close()
		return nil, err
	}
	l := &launched{guard: c, socket: ours}
	if err := l.take(); err != nil {
		l.giveUp()
		return nil, err
	}
	return l, nil
}

func sockets() (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(pair[0]), "sandbox"), os.NewFile(uintptr(pair[1]), "sandbox"), nil
}

// receiveFrom receives a message of a process between this one and the command, and the descriptor in it, or -1.
func receiveFrom(socket int) (text string, fd int, err error) {
	b, control := make([]byte, 1024), make([]byte, unix.CmsgSpace(4))
	n, c, _, _, err := unix.Recvmsg(socket, b, control, unix.MSG_CMSG_CLOEXEC)
	switch {
	case err != nil:
		return "", -1, err
	case n == 0:
		return "", -1, io.ErrUnexpectedEOF
	case c == 0:
		return string(b[:n]), -1, nil
	}
	messages, err := unix.ParseSocketControlMessage(control[:c])
	if err != nil {
		return "", -1, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return "", -1, err
	}
	return string(b[:n]), fds[0], nil
}

// take receives the message of become: its process and thread and a descriptor, or an error.
func (l *launched) take() error {
	text, fd, err := receiveFrom(int(l.socket.Fd()))
	switch {
	case err != nil:
		return err
	case fd < 0:
		return errors.New(text)
	}
	var process int
	if _, err = fmt.Sscan(text, &process, &l.thread); err == nil {
		l.command, err = os.FindProcess(process)
	}
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	l.listener = fd
	return nil
}

// release lets the process become the command.
func (l *launched) release() {
	_, _ = unix.Write(int(l.socket.Fd()), []byte{0})
}

// wait waits until the command and all that it started have ended, and returns how the command ended.
func (l *launched) wait() (unix.WaitStatus, error) {
	text, _, err := receiveFrom(int(l.socket.Fd()))
	l.giveUp()
	if err != nil {
		return 0, fmt.Errorf("the process that guards the command was killed (%v)", l.guard.ProcessState)
	}
	status, err := strconv.ParseUint(text, 10, 32)
	return unix.WaitStatus(status), err
}

// giveUp has the guard kill what runs, and waits for the guard.
func (l *launched) giveUp() {
	l.socket.Close()
	_ = l.guard.Wait()
}

// runGuard is the parent of the command. Processes whose parent ends become its children, so it reaps them, and kills
// those that are left when the command has ended. It does the same when the supervisor is killed. Until then it holds
// the filter's descriptor, because system calls that nobody can answer any more would fail, and programs would go on
// with the errors. If the guard itself is killed, its children become the supervisor's, which kills them then.
func runGuard() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", err)
	}
	// A name of its own survives killall.
	_ = os.WriteFile("/proc/self/comm", []byte("sandbox-guard"), 0)
	if err := makeNetwork(os.Getenv(network)); err != nil {
		_ = unix.Sendmsg(socketFD, []byte(err.Error()), nil, nil, unix.MSG_NOSIGNAL)
		return cli.ExitCode(1)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	ours, theirs, err := sockets()
	if err != nil {
		return err
	}
	command, err := syscall.ForkExec("/proc/self/exe", os.Args, &syscall.ProcAttr{
		Env:   append(without(without(os.Environ(), network), stage), stage+"="+becoming),
		Files: []uintptr{0, 1, 2, theirs.Fd()},
		Sys:   &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	theirs.Close()
	if err != nil {
		return err
	}
	_ = unix.Setpgid(0, 0) // so that signals for the command's process group do not reach this process
	listener, err := pass(int(ours.Fd()))
	if err != nil {
		endChildren()
		return cli.ExitCode(1)
	}
	defer unix.Close(listener)
	alone := make(chan struct{})
	go func() {
		_, _ = unix.Read(socketFD, make([]byte, 1)) // nothing is written any more
		close(alone)
	}()
	for {
		select {
		case <-ended:
			status, ok := reap(command)
			if !ok {
				continue
			}
			endChildren()
			if unix.Sendmsg(socketFD, []byte(strconv.Itoa(int(status))), nil, nil, unix.MSG_NOSIGNAL) != nil {
				return cli.ExitCode(1)
			}
			return nil
		case <-alone:
			endChildren()
			return cli.ExitCode(1)
		}
	}
}

// pass passes on the message of become to the supervisor, and the supervisor's permission to go on. It returns the
// descriptor of the filter. An error says that there will be no command.
func pass(command int) (listener int, err error) {
	text, listener, err := receiveFrom(command)
	var rights []byte
	switch {
	case err != nil:
		text = err.Error()
	case listener >= 0:
		rights = unix.UnixRights(listener)
	}
	if err := unix.Sendmsg(socketFD, []byte(text), rights, nil, unix.MSG_NOSIGNAL); err != nil {
		return -1, err
	}
	if listener < 0 {
		return -1, io.ErrUnexpectedEOF
	}
	b := make([]byte, 1)
	if n, err := unix.Read(socketFD, b); err != nil || n == 0 {
		return -1, errors.Join(err, io.ErrUnexpectedEOF)
	}
	_, err = unix.Write(command, b)
	return listener, err
}

// become installs the filter and executes the command. It returns only on failure.
func become(words []string) error {
	err := enter()
	if err == nil {
		err = syscall.Exec(words[0], words[1:], without(os.Environ(), stage))
		return fmt.Errorf("%s: %w", words[0], err)
	}
	_ = unix.Sendmsg(socketFD, []byte(err.Error()), nil, nil, unix.MSG_NOSIGNAL)
	return cli.ExitCode(1) // the supervisor reports the error
}

// enter puts this thread, which becomes the command, under the filter.
func enter() error {
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
	if err := unix.Sendmsg(socketFD, []byte(fmt.Sprint(os.Getpid(), unix.Gettid())), unix.UnixRights(listener), nil, 0); err != nil {
		return err
	}
	if n, err := unix.Read(socketFD, make([]byte, 1)); err != nil || n == 0 { // release
		return errors.Join(err, errors.New("the supervisor has ended"))
	}
	return nil
}

// explain returns the error for a filter that could not be installed.
func explain(err error) error {
	switch err {
	case unix.EINVAL, unix.ENOSYS:
		return fmt.Errorf("seccomp: %w: the kernel is older than 5.9, or built without SECCOMP_FILTER", err)
	case unix.EBUSY:
		return fmt.Errorf("seccomp: %w: a supervisor listens already; sandboxes can't be nested", err)
	case unix.EPERM, unix.EACCES:
		return fmt.Errorf("seccomp: %w: whatever runs this forbids seccomp, as some containers do (docker run --security-opt seccomp=unconfined; in Kubernetes seccompProfile: {type: Unconfined})", err)
	}
	return fmt.Errorf("seccomp: %w", err)
}

// allowDescriptors sees that our descriptors' numbers are allowed.
func allowDescriptors() error {
	const enough, plenty = firstFD + 124, 2 * farFD
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return err
	}
	if l.Max < enough {
		return fmt.Errorf("the limit of open files is %d, but must be at least %d (ulimit -n)", l.Max, enough)
	}
	// syscall, because Go restores the original limit unless it is set this way.
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: max(l.Cur, min(l.Max, plenty)), Max: l.Max})
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
