package sandbox

import (
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/record"
)

// supervisor answers the system calls of all processes of a sandbox.
type supervisor struct {
	listener int
	hosts    []*machine
	fabric   *fabric // of --fabric, in place of hosts; or nil
	files    *files
	trap     bool // a tracer sees all stores to registers
	old      bool // mlx5-old, erdma-old

	receiving sync.Mutex // the next call
	numbering sync.Mutex // a descriptor, from the search for a free number until it is given

	mu       sync.Mutex       // guards the fields below
	recorder *record.Recorder // nil: nothing is recorded
	openings []*device
	stops    map[int]bool // the processes that signals stop, with a tracer
	failed   error        // of the sandbox itself
}

// workers is the number of calls that are answered concurrently. A call that has to wait
// occupies none of them.
const workers = 4

// serve answers calls until no process is left.
func (s *supervisor) serve() {
	wakeHere(s.listener)
	var busy sync.WaitGroup
	for range workers {
		busy.Go(s.work)
	}
	busy.Wait()
	_ = unix.Close(s.listener)
}

func (s *supervisor) work() {
	for {
		var n notification
		err := s.next(&n)
		switch {
		case errors.Is(err, unix.ENOENT): // the caller was killed
		case err != nil:
			return
		default:
			s.answer(n)
		}
	}
}

// answer answers a call.
func (s *supervisor) answer(n notification) {
	switch c, err := s.accept(n); {
	case err == unix.ESRCH: // the caller was killed
	case err != nil:
		c.answer(failed(err))
	default:
		c.answer(c.handle())
	}
}

// next receives a call, or returns io.EOF when no process is left under the filter. Kernels
// differ in whether receiving itself ever ends then, so it is polled for.
func (s *supervisor) next(n *notification) error {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	p := []unix.PollFd{{Fd: int32(s.listener), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(p, -1)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		case p[0].Revents&unix.POLLIN == 0:
			return io.EOF
		default:
			return receive(s.listener, n)
		}
	}
}

// call is a system call that waits for an answer.
type call struct {
	*supervisor
	notification
	*process
}

// accept opens the process that makes a call. It returns ESRCH if the process was killed
// in the meantime.
func (s *supervisor) accept(n notification) (*call, error) {
	p, err := openProcess(int(n.PID))
	c := &call{s, n, p}
	if err == nil && !c.waits() {
		p.close()
		err = unix.ESRCH
	}
	return c, err
}

// waits reports whether the caller still waits for a reply. As long as it does, the numbers
// of its thread and its process are not reused.
func (c *call) waits() bool { return valid(c.listener, c.ID) == nil }

// owner opens the process that the calling thread belongs to.
func (c *call) owner() (*process, error) {
	p, err := openProcess(c.leader())
	if err == nil && !c.waits() {
		p.close()
		err = unix.ESRCH
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// result is an answer.
type result struct {
	value  int64
	errno  syscall.Errno
	resume bool // have the kernel carry it out
	later  bool // the reply is sent later
}

var resume = result{resume: true}

// failed returns the result of a call that fails with an errno, or an error that wraps one.
func failed(err error) result {
	errno := syscall.EIO
	errors.As(err, &errno)
	return result{errno: errno}
}

func done(value int, err error) result {
	if err != nil {
		return failed(err)
	}
	return result{value: int64(value)}
}

func (c *call) fd(arg int) int32 { return int32(uint32(c.Args[arg])) }

// answer ends the call. A caller that was killed needs none.
func (c *call) answer(r result) {
	if r.later {
		return
	}
	if c.process != nil {
		c.process.close()
	}
	resp := response{ID: c.ID, Val: r.value, Error: -int32(r.errno)}
	if r.resume {
		resp.Flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
	}
	_ = respond(c.listener, &resp)
}

// give gives the caller a descriptor at the lowest free number, and returns the number.
func (c *call) give(fd int, closeOnExec bool) (int, error) {
	a := addFD{ID: c.ID, Src: uint32(fd)}
	if closeOnExec {
		a.NewFlag = unix.O_CLOEXEC
	}
	return inject(c.listener, &a)
}

// giveOurs gives the caller a descriptor at a number whose calls the supervisor sees.
func (c *call) giveOurs(fd int, closeOnExec bool) (int, error) {
	c.numbering.Lock()
	defer c.numbering.Unlock()
	a := addFD{ID: c.ID, Src: uint32(fd), Flags: unix.SECCOMP_ADDFD_FLAG_SETFD, New: uint32(c.freeFD())}
	if closeOnExec {
		a.NewFlag = unix.O_CLOEXEC
	}
	return inject(c.listener, &a)
}

// handler answers a system call under some conditions.
type handler struct {
	conditions []condition
	answer     func(*call) result
}

func on(fdArg int, answer func(*call) result, also ...condition) handler {
	return handler{ours(0, fdArg, also...).conditions, answer}
}

// handlers are the system calls that the supervisor answers. Those with paths all come to
// it, because a filter can't read memory.
var handlers = map[int][]handler{
	unix.SYS_OPENAT:     {{nil, (*call).openat}},
	unix.SYS_OPENAT2:    {{nil, (*call).openat2}},
	unix.SYS_NEWFSTATAT: {{nil, (*call).fstatat}},
	unix.SYS_STATX:      {{nil, (*call).statx}},
	unix.SYS_FACCESSAT:  {{nil, (*call).faccessat}},
	unix.SYS_FACCESSAT2: {{nil, (*call).faccessat}},
	unix.SYS_READLINKAT: {{nil, (*call).readlinkat}},

	unix.SYS_GETXATTR:   {{nil, (*call).xattr}},
	unix.SYS_LGETXATTR:  {{nil, (*call).xattr}},
	unix.SYS_LISTXATTR:  {{nil, (*call).xattr}},
	unix.SYS_LLISTXATTR: {{nil, (*call).xattr}},

	unix.SYS_IOCTL: {
		{[]condition{is(1, abi.RDMA_VERBS_IOCTL)}, (*call).ioctl},
		on(0, (*call).ioctl, is(1, umadRegister)),
		on(0, (*call).ioctl, is(1, umadRegister2)),
		on(0, (*call).ioctl, is(1, umadUnregister)),
		on(0, (*call).ioctl, is(1, umadEnablePKey)),
	},
	unix.SYS_FSTAT:  {on(0, (*call).fstat)},
	unix.SYS_WRITE:  {on(0, (*call).writeFile)},
	unix.SYS_WRITEV: {on(0, (*call).writevFile)},
	unix.SYS_READ:   {on(0, (*call).readFile)},
	unix.SYS_MMAP:   {on(4, (*call).mmap)},
	unix.SYS_DUP:    {on(0, (*call).dup)},
	unix.SYS_FCNTL: {
		on(0, (*call).dup, is(1, unix.F_DUPFD)),
		on(0, (*call).dup, is(1, unix.F_DUPFD_CLOEXEC)),
	},

	unix.SYS_SOCKET:      {{[]condition{is(0, unix.AF_NETLINK), is(2, unix.NETLINK_RDMA)}, (*call).socket}},
	unix.SYS_BIND:        {on(0, (*call).bind)},
	unix.SYS_CONNECT:     {on(0, (*call).bind)},
	unix.SYS_GETSOCKNAME: {on(0, (*call).getsockname)},
	unix.SYS_SETSOCKOPT:  {on(0, (*call).setsockopt)},
	unix.SYS_GETSOCKOPT:  {on(0, (*call).getsockopt)},
	unix.SYS_SENDTO:      {on(0, (*call).sendto)},
	unix.SYS_SENDMSG:     {on(0, (*call).sendmsg)},
	unix.SYS_RECVFROM:    {on(0, (*call).recvfrom)},
	unix.SYS_RECVMSG:     {on(0, (*call).recvmsg)},
}

// table is handlers with those of this architecture.
var table = func() map[int][]handler {
	all := maps.Clone(handlers)
	for nr, answer := range older {
		all[nr] = []handler{{nil, answer}}
	}
	return all
}()

// rules returns the rules of the filter.
func rules() (all []rule) {
	for _, nr := range slices.Sorted(maps.Keys(table)) {
		for _, h := range table[nr] {
			all = append(all, rule{nr, h.conditions})
		}
	}
	return all
}

// handle finds the answer to a call. The filter has checked the conditions: handlers of
// one call do the same.
func (c *call) handle() result {
	h := table[int(c.Nr)]
	if len(h) == 0 {
		return resume
	}
	return h[0].answer(c)
}
