package trace

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/abi"
)

// tracer follows a program, its threads and its children. It runs on a single thread, as ptrace
// requires.
type tracer struct {
	report  func(*Call) error
	child   int
	pending map[int]*pending // by thread, from entry to exit
	known   map[int]bool     // threads whose first stop was seen
	status  unix.WaitStatus  // of the child
}

// pending is a call that has not returned.
type pending struct {
	Call
	request  uint64 // of an ioctl, to be read again: the kernel writes handles to it
	response uint64 // of GET_EVENT
}

const options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK |
	unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_EXITKILL

// follow runs until all processes have ended. The child is stopped at its first instruction.
func (t *tracer) follow() error {
	var ws unix.WaitStatus
	if _, err := unix.Wait4(t.child, &ws, unix.WALL, nil); err != nil {
		return err
	}
	if err := unix.PtraceSetOptions(t.child, options); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	t.known[t.child] = true
	if err := proceed(t.child, 0); err != nil {
		return err
	}
	for {
		tid, err := unix.Wait4(-1, &ws, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD):
			return nil
		case err != nil:
			return err
		}
		if !ws.Stopped() {
			t.ended(tid, ws)
			continue
		}
		signal, err := t.stopped(tid, ws)
		if err := errors.Join(err, proceed(tid, signal)); err != nil {
			return err
		}
	}
}

func (t *tracer) ended(tid int, ws unix.WaitStatus) {
	if tid == t.child {
		t.status = ws
	}
	delete(t.pending, tid)
	delete(t.known, tid)
}

// proceed lets a thread run to its next system call. One that was killed is gone.
func proceed(tid int, signal unix.Signal) error {
	if err := unix.PtraceSyscall(tid, int(signal)); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("trace: %w", err)
	}
	return nil
}

// stopped determines why a thread stopped, and returns the signal to deliver to it.
func (t *tracer) stopped(tid int, ws unix.WaitStatus) (unix.Signal, error) {
	first := !t.known[tid]
	t.known[tid] = true
	switch signal := ws.StopSignal(); {
	case signal == unix.SIGTRAP|0x80:
		return 0, t.syscall(tid)
	case signal == unix.SIGTRAP && ws.TrapCause() > 0: // an event of ptrace's own
		return 0, nil
	case signal == unix.SIGSTOP && first: // a new thread begins with this
		return 0, nil
	default:
		return signal, nil
	}
}

func (t *tracer) syscall(tid int) error {
	info, err := stoppedAt(tid)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("trace: %w (PTRACE_GET_SYSCALL_INFO needs Linux 5.3)", err)
	}
	switch info.op {
	case atEntry:
		delete(t.pending, tid)
		if p := entered(tid, info.data[0], info.data[1:]); p != nil {
			t.pending[tid] = p
		}
	case atExit:
		p := t.pending[tid]
		delete(t.pending, tid)
		if result := int64(info.data[0]); p != nil && !restarts(result) {
			return t.report(p.returned(result))
		}
	}
	return nil
}

// restarts reports whether a result means that a signal interrupted the call before it was
// carried out. The thread repeats the call, with another entry and exit. Programs never see
// these numbers.
func restarts(result int64) bool {
	const restartSys, restartBlock = -512, -516 // ERESTARTSYS to ERESTART_RESTARTBLOCK
	return restartBlock <= result && result <= restartSys
}

// entered returns the call that a thread begins, or nil if it has nothing to do with RDMA.
func entered(tid int, number uint64, args []uint64) *pending {
	p := &pending{Call: Call{Thread: tid}}
	m := memoryOf(tid)
	switch number {
	case unix.SYS_OPENAT:
		path := cString(m, args[1])
		node, ok := strings.CutPrefix(path, nodes)
		if !ok {
			return nil
		}
		p.Node, p.Kind = node, "open"
	case unix.SYS_IOCTL:
		if uint32(args[1]) != abi.RDMA_VERBS_IOCTL {
			return nil
		}
		p.Node, p.Kind, p.request = nodeOf(tid, args[0]), "ioctl", args[2]
		p.Name, p.Args = ioctl(m, p.request)
	case unix.SYS_WRITE:
		if p.Node = nodeOf(tid, args[0]); p.Node == "" {
			return nil
		}
		p.Kind = "write"
		p.Name, p.response = write(m, p.Node, args[1], args[2])
	default:
		return nil
	}
	return p
}

// returned completes a call with its result and the data that the kernel wrote.
func (p *pending) returned(result int64) *Call {
	p.Result = result
	if result < 0 {
		p.Error = unix.ErrnoName(unix.Errno(-result)) + ": " + unix.Errno(-result).Error()
		return &p.Call
	}
	m := memoryOf(p.Thread)
	if p.request != 0 {
		p.Name, p.Args = ioctl(m, p.request)
	}
	if p.response != 0 {
		p.Args = event(m, p.response)
	}
	return &p.Call
}

// nodes is where RDMA's device nodes are.
const nodes = "/dev/infiniband/"

// nodeOf is the device node behind a descriptor, empty if it is another file.
func nodeOf(tid int, fd uint64) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, int32(fd)))
	node, ok := strings.CutPrefix(path, nodes)
	if err != nil || !ok {
		return ""
	}
	return node
}
