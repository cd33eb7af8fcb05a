package sandbox

import (
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/record"
)

// supervisor answers the system calls of all processes of a sandbox.
type supervisor struct {
	listener int
	hosts    []*machine
	fabric   *fabric // of --fabric, in place of hosts; or nil
	faults   *faults
	wire     *wire // of --wire, or nil
	files    *files
	trap     bool // a tracer sees all stores to registers
	netns    bool // an interface has the addresses of the hosts
	profile  bool // the PCI devices are those of a profile
	old      bool // mlx5-old, erdma-old, efa-old

	receiving    sync.Mutex    // the next call
	current      atomic.Uint64 // the call that is answered while receiving is held, or 0
	callsWatched atomic.Bool   // watchCalls runs
	callers      callers

	numbering sync.Mutex // a descriptor, from the search for a free number until it is given
	lastGiven int        // the newest number; numbering guards it

	watching sync.Once
	ended    atomic.Bool // no process is left

	mu       sync.Mutex       // guards the fields below
	recorder *record.Recorder // nil: nothing is recorded
	openings []*device        // replaced, never changed
	locked   map[int]*locked  // by the number of the process
	stops    map[int]bool     // the processes that signals stop, with a tracer
	failed   error            // of the sandbox itself
}

// workers is the number of calls that are answered concurrently. A call that has to wait
// occupies none of them.
const workers = 4

// serve answers calls until no process is left.
func (s *supervisor) serve() {
	var busy sync.WaitGroup
	for range workers {
		busy.Go(s.work)
	}
	busy.Wait()
	s.ended.Store(true)
	s.callers.forget()
	_ = unix.Close(s.listener)
}

// work answers calls until no process is left.
func (s *supervisor) work() {
	for {
		s.receiving.Lock()
		for {
			n, err := s.next()
			if err != nil {
				s.receiving.Unlock()
				return
			}
			if !s.answerFirst(n) {
				break
			}
		}
	}
}

// answerFirst answers a call before the next one is received, because waking another thread for that takes longer than
// most calls. It reports false if the call took so long that another worker receives now.
func (s *supervisor) answerFirst(n notification) bool {
	s.current.Store(n.ID)
	if s.callsWatched.CompareAndSwap(false, true) {
		go s.watchCalls()
	}
	s.answer(n)
	return s.current.CompareAndSwap(n.ID, 0)
}

// longCall is the time after which a call no longer keeps the others waiting.
const longCall = 20 * time.Millisecond

// watchCalls lets another worker receive if a call takes long. The call may wait for memory that another thread of
// the program provides, whose calls have to be answered (userfaultfd(2), FUSE).
func (s *supervisor) watchCalls() {
	for last := uint64(0); ; {
		time.Sleep(longCall)
		id := s.current.Load()
		switch {
		case id == 0 && last == 0:
			s.callsWatched.Store(false)
			if s.current.Load() == 0 || !s.callsWatched.CompareAndSwap(false, true) { // a call may have begun before
				return
			}
		case id != 0 && id == last && s.current.CompareAndSwap(id, 0):
			s.receiving.Unlock()
			id = 0
		}
		last = id
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
//
// The kernel is to run this thread on the caller's CPU, because the caller waits now. It is not to run the caller on
// this thread's afterwards: two programs that poll, each on a CPU of its own, would meet on one.
func (s *supervisor) next() (n notification, err error) {
	p := []unix.PollFd{{Fd: int32(s.listener), Events: unix.POLLIN}}
	for {
		setFlags(s.listener, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
		_, err := unix.Poll(p, -1)
		setFlags(s.listener, 0)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return n, err
		case p[0].Revents&unix.POLLIN == 0:
			return n, io.EOF
		}
		if err := receive(s.listener, &n); err != unix.ENOENT { // the caller was killed
			return n, err
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
	if p := s.callers.take(int(n.PID)); p != nil {
		// A thread that was there before the call and has not ended is the caller: no other has its number.
		if p.isThere() {
			return &call{s, n, p}, nil
		}
		p.close()
	}
	p, err := openProcess(int(n.PID))
	c := &call{s, n, p}
	if err == nil && !c.waits() {
		p.close()
		err = unix.ESRCH
	}
	if err == nil {
		p.calls = true
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
		c.callers.keep(c.process)
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

// giveOurs gives the caller a descriptor at a number whose calls the supervisor sees. The kernel can be asked for
// the lowest free number or for a certain one, whose descriptor it replaces. So the number must be one that no other
// thread of the process can get meanwhile, or one that the process has for this purpose.
func (c *call) giveOurs(fd int, closeOnExec bool) (int, error) {
	c.numbering.Lock()
	defer c.numbering.Unlock()
	if c.threads() == 1 {
		return c.giveNext(fd, closeOnExec, firstFD)
	}
	for n := firstReserved; n < firstReserved+reserved; n++ {
		if id, err := c.file(int32(n)); err == nil && id == c.files.reservedID {
			return c.giveAt(fd, n, closeOnExec)
		}
	}
	// Other threads get the lowest free numbers, so they have to open very many files to come from below the margin to
	// this half of the numbers. If they are there already, the lowest number is the sandbox's, too.
	var limit unix.Rlimit
	if err := unix.Prlimit(c.id, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		return -1, err
	}
	half := int(max(firstFD, min(limit.Cur/2, farFD)))
	if !c.has(half - margin) {
		return c.giveNext(fd, closeOnExec, half)
	}
	for range margin {
		n, err := c.give(fd, closeOnExec)
		if err != nil || n >= firstFD {
			return n, err
		}
		// It is one that was closed meanwhile. The process keeps it, so that the next one is another.
		if _, err := c.giveAt(int(c.files.reserve.Fd()), n, true); err != nil {
			return -1, err
		}
	}
	return -1, unix.EMFILE
}

// Programs may wait for numbers up to 1023 by select(2), so a process that has one of ours before it has threads
// gets a few more for later.
const (
	firstReserved = 1008
	reserved      = 16
	farFD         = 1 << 15
	margin        = 128
)

// giveNext gives the caller a descriptor at a free number from first on.
func (c *call) giveNext(fd int, closeOnExec bool, first int) (int, error) {
	if !c.has(firstReserved+reserved-1) && first == firstFD {
		for n := firstReserved; n < firstReserved+reserved; n++ {
			if c.has(n) {
				continue
			}
			if _, err := c.giveAt(int(c.files.reserve.Fd()), n, true); err != nil {
				break // the limit is lower
			}
		}
	}
	n := c.lastGiven + 1
	if n <= first || !c.has(c.lastGiven) || c.has(n) {
		n = c.freeFD(first)
	}
	c.lastGiven = n
	return c.giveAt(fd, n, closeOnExec)
}

// giveAt gives the caller a descriptor at a number.
func (c *call) giveAt(fd, n int, closeOnExec bool) (int, error) {
	a := addFD{ID: c.ID, Src: uint32(fd), Flags: unix.SECCOMP_ADDFD_FLAG_SETFD, New: uint32(n)}
	if closeOnExec {
		a.NewFlag = unix.O_CLOEXEC
	}
	n, err := inject(c.listener, &a)
	if err == unix.EBADF {
		err = unix.EMFILE // the number is not below the limit
	}
	return n, err
}

// handler answers a system call under some conditions.
type handler struct {
	conditions []condition
	answer     func(*call) result
}

func on(fdArg int, answer func(*call) result, also ...condition) handler {
	return handler{ours(0, fdArg, also...).conditions, answer}
}

var dupLow = on(0, (*call).dupLow, condition{1, 0, firstFD - 1})

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
	unix.SYS_CHDIR:      {{nil, (*call).chdir}},
	unix.SYS_GETCWD:     {{nil, (*call).getcwd}},

	unix.SYS_EXECVE:   {{nil, (*call).exec}},
	unix.SYS_EXECVEAT: {{nil, (*call).exec}},

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
	unix.SYS_FSTAT:     {on(0, (*call).fstat)},
	unix.SYS_FTRUNCATE: {on(0, (*call).ftruncate)},
	unix.SYS_FALLOCATE: {on(0, (*call).fallocate)},
	unix.SYS_WRITE:     {on(0, (*call).writeFile)},
	unix.SYS_WRITEV:    {on(0, (*call).writevFile)},
	unix.SYS_READ:      {on(0, (*call).readFile)},
	unix.SYS_MMAP:      {on(4, (*call).mmap)},
	unix.SYS_DUP:       {on(0, (*call).dup)},
	unix.SYS_DUP3:      {dupLow},
	unix.SYS_FCNTL: {
		on(0, (*call).dup, is(1, unix.F_DUPFD)),
		on(0, (*call).dup, is(1, unix.F_DUPFD_CLOEXEC)),
	},

	unix.SYS_SOCKET:      {{[]condition{is(0, unix.AF_NETLINK), is(2, unix.NETLINK_RDMA)}, (*call).socket}},
	unix.SYS_BIND:        {on(0, (*call).ignore)},
	unix.SYS_CONNECT:     {on(0, (*call).ignore)},
	unix.SYS_GETSOCKNAME: {on(0, (*call).getsockname)},
	unix.SYS_SETSOCKOPT:  {on(0, (*call).ignore)},
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
		all[nr] = []handler{answer}
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
