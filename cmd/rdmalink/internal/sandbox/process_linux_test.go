package sandbox

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/mmap"
)

// TestProcessMemory: memory of a process is read and written, and none of a process that was closed.
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
		if p.getenv("PATH") != "" || p.directory() != "/" {
			t.Errorf("used %v: it has the environment or directory of another", used)
		}
		for m := range p.mappings() {
			t.Errorf("used %v: it has a mapping: %+v", used, m)
		}
	}
}

// TestAcceptNobody: by the time that a call is received its caller may have been killed, and the
// number of its thread be another's, here the test's own.
func TestAcceptNobody(t *testing.T) {
	c := exec.Command("true")
	c.Args = []string{"true"}
	l, err := start(c)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(l.listener)
	defer l.giveUp(c)
	s := &supervisor{listener: l.listener}
	if _, err := s.accept(notification{ID: 1, PID: uint32(os.Getpid())}); err != unix.ESRCH {
		t.Error(err)
	}
}
