package sandbox

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/abi"
)

// run runs a filter on a system call, as the kernel's seccomp_run_filters does.
func run(t *testing.T, p []unix.SockFilter, arch uint32, nr int, args ...uint64) uint32 {
	t.Helper()
	data := make([]byte, dataArgs+6*8)
	binary.NativeEndian.PutUint32(data[dataNr:], uint32(nr))
	binary.NativeEndian.PutUint32(data[dataArch:], arch)
	for i, a := range args {
		binary.NativeEndian.PutUint64(data[dataArgs+8*i:], a)
	}
	var acc uint32
	for pc := 0; pc < len(p); pc++ {
		in := p[pc]
		taken := false
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = binary.NativeEndian.Uint32(data[in.K:])
			continue
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			taken = acc == in.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			taken = acc >= in.K
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			taken = acc > in.K
		default:
			t.Fatalf("instruction %d has code %#x", pc, in.Code)
		}
		if taken {
			pc += int(in.Jt)
		} else {
			pc += int(in.Jf)
		}
	}
	t.Fatal("the filter does not return")
	return 0
}

func TestFilter(t *testing.T) {
	p := program(auditArch, rules())
	if len(p) > 4096 { // BPF_MAXINSNS
		t.Fatal(len(p), "instructions")
	}
	const cwd = 0xffffff9c // AT_FDCWD
	for _, c := range []struct {
		what   string
		arch   uint32
		nr     int
		args   []uint64
		notify bool
	}{
		{"any path", auditArch, unix.SYS_OPENAT, []uint64{cwd, 0x7fff00000000}, true},
		{"a descriptor of ours", auditArch, unix.SYS_WRITE, []uint64{firstFD}, true},
		{"the last one", auditArch, unix.SYS_WRITE, []uint64{lastFD}, true},
		{"behind the last", auditArch, unix.SYS_WRITE, []uint64{lastFD + 1}, false},
		{"another's", auditArch, unix.SYS_WRITE, []uint64{firstFD - 1}, false},
		{"standard output", auditArch, unix.SYS_WRITE, []uint64{1}, false},
		{"the high half does not count", auditArch, unix.SYS_WRITE, []uint64{1<<32 | firstFD}, true},
		{"no descriptor", auditArch, unix.SYS_FSTAT, []uint64{cwd}, false},
		{"verbs", auditArch, unix.SYS_IOCTL, []uint64{5, abi.RDMA_VERBS_IOCTL}, true},
		{"a terminal's", auditArch, unix.SYS_IOCTL, []uint64{1, unix.TCGETS}, false},
		{"NETLINK_RDMA", auditArch, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_RDMA}, true},
		{"NETLINK_ROUTE", auditArch, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, false},
		{"TCP", auditArch, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.NETLINK_RDMA}, false},
		{"a mapping of ours", auditArch, unix.SYS_MMAP, []uint64{0, 4096, 3, 1, firstFD}, true},
		{"of nothing", auditArch, unix.SYS_MMAP, []uint64{0, 4096, 3, 0x22, 0xffffffff}, false},
		{"a copy", auditArch, unix.SYS_FCNTL, []uint64{firstFD, unix.F_DUPFD}, true},
		{"that execve(2) closes", auditArch, unix.SYS_FCNTL, []uint64{firstFD, unix.F_DUPFD_CLOEXEC}, true},
		{"flags", auditArch, unix.SYS_FCNTL, []uint64{firstFD, unix.F_GETFL}, false},
		{"none of ours", auditArch, unix.SYS_GETPID, nil, false},
		{"another architecture", unix.AUDIT_ARCH_I386, unix.SYS_OPENAT, nil, false},
	} {
		want := uint32(unix.SECCOMP_RET_ALLOW)
		if c.notify {
			want = unix.SECCOMP_RET_USER_NOTIF
		}
		if got := run(t, p, c.arch, c.nr, c.args...); got != want {
			t.Errorf("%s: %#x, want %#x", c.what, got, want)
		}
	}
}
