package sandbox

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/mmap"
)

// TestCopyFile: memory is reached by way of a file just as by system calls, which some kernels do
// not have.
func TestCopyFile(t *testing.T) {
	r, err := mmap.Anonymous(os.Getpagesize(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, there := process(os.Getpid()), "what is there"
	copy(r.Bytes(), there)
	b := make([]byte, len(there))
	if err := p.copyFile((*os.File).ReadAt, r.Addr(), b); err != nil || string(b) != there {
		t.Errorf("%q, %v", b, err)
	}
	if err := p.copyFile((*os.File).WriteAt, r.Addr(), []byte("that")); err != nil || !strings.HasPrefix(string(r.Bytes()), "that is there") {
		t.Errorf("%q, %v", r.Bytes()[:len(there)], err)
	}
	if err := p.copyFile((*os.File).ReadAt, 1, b); err != syscall.EFAULT {
		t.Error(err)
	}
	const nobody = 1 << 30
	if err := process(nobody).copyFile((*os.File).ReadAt, r.Addr(), b); err != syscall.ESRCH {
		t.Error(err)
	}
}
