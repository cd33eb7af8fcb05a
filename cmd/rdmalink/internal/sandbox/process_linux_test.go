package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/mmap"
)

// TestProcessMemory checks reads and writes of a process's memory, and that they fail after close.
func TestProcessMemory(t *testing.T) {
	r, err := mmap.Anonymous(os.Getpagesize(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, there := processOf(t, os.Getpid()), "what is there"
	copy(r.Bytes(), there)
	b := make([]byte, len(there))
	if err := p.read(r.Addr(), b); err != nil || string(b) != there {
		t.Errorf("%q, %v", b, err)
	}
	if err := p.write(r.Addr(), []byte("that")); err != nil || !strings.HasPrefix(string(r.Bytes()), "that is there") {
		t.Errorf("%q, %v", r.Bytes()[:len(there)], err)
	}
	if err := p.read(1, b); err != syscall.EFAULT {
		t.Error(err)
	}
	p.close()
	if err := p.write(r.Addr(), []byte("this")); err == nil || !strings.HasPrefix(string(r.Bytes()), "that is there") {
		t.Errorf("%q, %v", r.Bytes()[:len(there)], err)
	}
	if _, err := p.file(0); err == nil {
		t.Error("a closed process has descriptors")
	}
	const nobody = 1 << 30
	if _, err := openProcess(nobody); err != syscall.ESRCH {
		t.Error(err)
	}
}

// TestLongFile checks that a file as long as a program likes, such as its environment, is not read whole.
func TestLongFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "environ")
	if err := os.WriteFile(name, []byte("A=B\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, 4*mostFile); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{dir: fd, calls: true}
	defer p.close()
	if b := p.readFile("environ"); len(b) != mostFile || p.getenv("A") != "B" {
		t.Errorf("%d bytes, A=%q", len(b), p.getenv("A"))
	}
}

func processOf(t *testing.T, id int) *process {
	t.Helper()
	p, err := openProcess(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

// TestProcessEnded checks that calls for a process that has ended fail, even after its number was
// reused: the test replaces the number with its own, for which a lookup by number would succeed.
func TestProcessEnded(t *testing.T) {
	for _, used := range []bool{false, true} {
		c := exec.Command("cat")
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		p := processOf(t, c.Process.Pid)
		if used {
			if err := p.openMemory(); err != nil {
				t.Fatal(err)
			}
		}
		in.Close()
		if err := c.Wait(); err != nil {
			t.Fatal(err)
		}
		p.id = os.Getpid()
		mine := [8]byte{1}
		r, err := mmap.Anonymous(os.Getpagesize(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if err := p.write(r.Addr(), mine[:]); err != syscall.ESRCH || r.Bytes()[0] != 0 {
			t.Errorf("used %v: %v", used, err)
		}
		if _, err := p.file(0); err == nil {
			t.Errorf("used %v: descriptor 0 is there", used)
		}
		if p.getenv("PATH") != "" || p.directory("cwd") != "/" {
			t.Errorf("used %v: it has the environment or directory of another", used)
		}
		if m, ok := p.mapping(r.Addr()); ok {
			t.Errorf("used %v: it has a mapping: %+v", used, m)
		}
	}
}

// TestAcceptNobody checks a call whose caller was killed before the call was received, and whose
// thread number was reused; here it is the test's own.
func TestAcceptNobody(t *testing.T) {
	c := exec.Command("true")
	c.Args = []string{"true"}
	l, err := start(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(l.listener)
	defer l.giveUp()
	s := &supervisor{listener: l.listener}
	if _, err := s.accept(notification{ID: 1, PID: uint32(os.Getpid())}); err != unix.ESRCH {
		t.Error(err)
	}
}

// TestCheckMemory checks that memory is there if all of it is mapped and readable, in one mapping or several.
func TestCheckMemory(t *testing.T) {
	page := os.Getpagesize()
	r, err := mmap.Anonymous(3*page, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m := userMemory{processOf(t, os.Getpid()), "/none/"}
	addr, size := r.Addr(), uint64(page)
	for _, c := range []struct {
		middle int // its protection
		want   [3]error
	}{
		{unix.PROT_READ | unix.PROT_WRITE, [3]error{}},
		{unix.PROT_READ, [3]error{}},
		{unix.PROT_NONE, [3]error{syscall.EFAULT, nil, syscall.EFAULT}},
	} {
		if err := unix.Mprotect(r.Bytes()[page:2*page], c.middle); err != nil {
			t.Fatal(err)
		}
		if got := [3]error{m.Check(addr, 3*size), m.Check(addr, size), m.Check(addr+size-1, 2)}; got != c.want {
			t.Errorf("protection %#x: %v", c.middle, got)
		}
	}
	if err := m.Check(^uint64(0), 2); err != syscall.EFAULT {
		t.Errorf("around the end of the addresses: %v", err)
	}
}

// TestFirstThreadEnded checks that a device and a channel can be opened and used after the first thread of
// a process has ended, and that a device can be used that this thread opened.
func TestFirstThreadEnded(t *testing.T) {
	source := filepath.Join(t.TempDir(), "ended.c")
	if err := os.WriteFile(source, []byte(firstThreadEnded), 0o600); err != nil {
		t.Fatal(err)
	}
	program := compiled(t, source)
	for _, words := range [][]string{{program}, {program, "late"}} {
		if out, err := inside(t, nil, words...); err != nil {
			t.Errorf("%v: %v\n%s", words[1:], err, out)
		}
	}
}

const firstThreadEnded = `
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>

static struct ibv_context *device;
static pthread_t first;

static void open_device(void) { device = ibv_open_device(ibv_get_device_list(0)[0]); }

static void *second(void *unused)
{
	static char memory[4096];
	struct ibv_comp_channel *channel;
	struct ibv_pd *pd;

	pthread_join(first, 0);
	if (!device)
		open_device();
	if (!device || !(pd = ibv_alloc_pd(device)))
		exit(2);
	if (!ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE))
		exit(3);
	channel = ibv_create_comp_channel(device);
	exit(channel && ibv_create_cq(device, 1, 0, channel, 0) && rdma_create_event_channel() ? 0 : 4);
}

int main(int n, char **words)
{
	pthread_t thread;

	first = pthread_self();
	if (n == 1)
		open_device();
	pthread_create(&thread, 0, second, 0);
	pthread_exit(0);
}
`
