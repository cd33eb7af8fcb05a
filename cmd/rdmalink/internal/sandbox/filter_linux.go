package sandbox

import "golang.org/x/sys/unix"

// Descriptors of the sandbox have numbers from firstFD on, because a filter can only
// compare the number of a descriptor. Numbers below 1024 are used first, because select(2)
// supports no others.
const (
	firstFD = 900
	lastFD  = 1<<20 - 1
)

// rule names a system call that the supervisor answers. All conditions must hold.
type rule struct {
	nr         int
	conditions []condition
}

// condition is a range of one argument, of which the low half counts: descriptors and
// commands are of 32 bits.
type condition struct {
	arg      int
	min, max uint32
}

// ours is a call whose descriptor, argument arg, is one of ours.
func ours(nr, arg int, also ...condition) rule {
	return rule{nr, append([]condition{{arg, firstFD, lastFD}}, also...)}
}

func is(arg int, v uint32) condition { return condition{arg, v, v} }

// Where struct seccomp_data has its fields.
const (
	dataNr   = 0
	dataArch = 4
	dataArgs = 16
)

// program returns the filter. It allows calls that no rule names, and all calls of another
// architecture.
func program(arch uint32, rules []rule) []unix.SockFilter {
	p := []unix.SockFilter{
		load(dataArch),
		jump(unix.BPF_JEQ, arch, 1, 0),
		ret(unix.SECCOMP_RET_ALLOW),
	}
	for _, r := range rules {
		p = append(p, r.block()...)
	}
	return append(p, ret(unix.SECCOMP_RET_ALLOW))
}

// block jumps over its instructions if the call is another one.
func (r rule) block() []unix.SockFilter {
	size := 2 + 3*len(r.conditions) + 1
	b := make([]unix.SockFilter, 0, size)
	left := func() uint8 { return uint8(size - len(b) - 1) }
	b = append(b, load(dataNr))
	b = append(b, jump(unix.BPF_JEQ, uint32(r.nr), 0, left()))
	for _, c := range r.conditions {
		b = append(b, load(uint32(dataArgs+8*c.arg)))
		b = append(b, jump(unix.BPF_JGE, c.min, 0, left()))
		b = append(b, jump(unix.BPF_JGT, c.max, left(), 0))
	}
	return append(b, ret(unix.SECCOMP_RET_USER_NOTIF))
}

func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

func jump(op uint16, v uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, K: v, Jt: yes, Jf: no}
}

func ret(v uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: v} }
