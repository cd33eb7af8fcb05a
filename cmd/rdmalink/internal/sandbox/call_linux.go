package sandbox

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

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

// waits reports whether the caller still waits for an answer. Until it does no more, the
// numbers of its thread and its process are theirs.
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
	value int64
	errno syscall.Errno
	goOn  bool // have the kernel carry it out
	later bool // the reply is sent later
}

var goOn = result{goOn: true}

// failed is a call that ends with an error: an errno, or an error that wraps one.
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
	if r.goOn {
		resp.Flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
	}
	_ = respond(c.listener, &resp)
}

// give gives the caller a descriptor at the lowest free number and returns that.
func (c *call) give(fd int, closeOnExec bool) (int, error) {
	a := addFD{ID: c.ID, Src: uint32(fd)}
	if closeOnExec {
		a.NewFlag = unix.O_CLOEXEC
	}
	return inject(c.listener, &a)
}

// giveOurs gives it at a number whose calls come here.
func (c *call) giveOurs(fd int, closeOnExec bool) (int, error) {
	c.numbering.Lock()
	defer c.numbering.Unlock()
	a := addFD{ID: c.ID, Src: uint32(fd), Flags: unix.SECCOMP_ADDFD_FLAG_SETFD, New: uint32(c.freeFD())}
	if closeOnExec {
		a.NewFlag = unix.O_CLOEXEC
	}
	return inject(c.listener, &a)
}
