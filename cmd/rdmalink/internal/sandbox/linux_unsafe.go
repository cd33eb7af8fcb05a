//go:build linux

package sandbox

import (
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notification is struct seccomp_notif.
type notification struct {
	ID    uint64
	PID   uint32 // of the thread
	Flags uint32
	Nr    int32
	Arch  uint32
	IP    uint64
	Args  [6]uint64
}

// response is struct seccomp_notif_resp.
type response struct {
	ID    uint64
	Val   int64
	Error int32
	Flags uint32
}

// addFD is struct seccomp_notif_addfd.
type addFD struct {
	ID           uint64
	Flags        uint32
	Src          uint32
	New, NewFlag uint32
}

// Of seccomp's ioctls those that package unix lacks.
const (
	ioctlIDValid  = 0x40082102
	ioctlAddFD    = 0x40182103
	ioctlSetFlags = 0x40082104
)

// install installs a filter for the calling thread, and returns the descriptor that reports
// the system calls that the filter names.
func install(program []unix.SockFilter, flags uintptr) (listener int, err error) {
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&p)))
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

func receive(listener int, n *notification) error {
	*n = notification{}
	return control(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(n))
}

func respond(listener int, r *response) error {
	return control(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(r))
}

// valid returns ENOENT if the caller no longer waits for the reply to a call.
func valid(listener int, id uint64) error {
	return control(listener, ioctlIDValid, unsafe.Pointer(&id))
}

// inject gives the caller of a notified system call a descriptor and returns its number.
func inject(listener int, a *addFD) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), ioctlAddFD, uintptr(unsafe.Pointer(a)))
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// setFlags sets the listener's flags. Kernels before 6.6 have none.
func setFlags(listener int, flags uintptr) {
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(listener), ioctlSetFlags, flags)
}

// sleep sleeps a few microseconds. Go's scheduler takes the thread for one that runs: to hand its place to another
// thread, and back, takes as long as such a sleep.
func sleep(d time.Duration) {
	if runtime.GOMAXPROCS(0) == 1 { // there is no other place
		pause := unix.NsecToTimespec(int64(d))
		_ = unix.Nanosleep(&pause, nil)
		return
	}
	pause := unix.NsecToTimespec(int64(d))
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0)
}

// seize makes the calling thread the tracer of another thread, without stopping it.
func seize(thread int, options uintptr) error {
	return order(unix.PTRACE_SEIZE, thread, options)
}

// listen leaves a thread stopped until SIGCONT.
func listen(thread int) error { return order(unix.PTRACE_LISTEN, thread, 0) }

// faultAddress returns the address of the access for which a thread was sent a signal. It is an
// error if the thread was sent the signal by a process.
func faultAddress(thread int) (uint64, error) {
	var info struct {
		Signo, Errno, Code int32
		_                  int32
		Addr               uint64
		_                  [104]byte
	}
	if err := fetch(unix.PTRACE_GETSIGINFO, thread, unsafe.Pointer(&info)); err != nil {
		return 0, err
	}
	if info.Code <= 0 {
		return 0, unix.EINVAL
	}
	return info.Addr, nil
}

// floatingPoint is struct user_fpregs_struct of amd64.
type floatingPoint struct {
	_   [160]byte
	XMM [16][16]byte
	_   [96]byte
}

func getFloatingPoint(thread int, fp *floatingPoint) error {
	const getFPRegs = 14 // package unix has it on amd64 only
	return fetch(getFPRegs, thread, unsafe.Pointer(fp))
}

// signalMask returns the signals that a stopped thread blocks.
func signalMask(thread int) (mask uint64, err error) {
	err = maskOrder(0x420a, thread, &mask) // PTRACE_GETSIGMASK, which package unix lacks
	return mask, err
}

func setSignalMask(thread int, mask uint64) error {
	return maskOrder(0x420b, thread, &mask) // PTRACE_SETSIGMASK
}

func maskOrder(request, thread int, mask *uint64) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(thread), unsafe.Sizeof(*mask), uintptr(unsafe.Pointer(mask)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// order makes a ptrace(2) call with a number.
func order(request, thread int, data uintptr) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(thread), 0, data, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// fetch makes a ptrace(2) call that fills a struct.
func fetch(request, thread int, into unsafe.Pointer) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(thread), 0, uintptr(into), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func control(fd int, cmd uintptr, arg unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), cmd, uintptr(arg))
		if errno == 0 {
			return nil
		}
		if errno != unix.EINTR {
			return errno
		}
	}
}
