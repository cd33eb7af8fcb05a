//go:build vm

package test

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestMemory has the peer write to and read from each kind of memory.
func TestMemory(t *testing.T) {
	fabric(t)
	for name, register := range memoryKinds {
		t.Run(name, func(t *testing.T) {
			noLeak(t)
			c, s := connect(t, setup{size: 2 * kindSize}, setup{})
			mr := register(t, s.PD())
			closeLater(t, mr)
			runtime.GC() // which neither frees nor moves it
			writtenAndRead(t, c, c.mr, mr, kindSize)
		})
	}
}

// TestMemoryAndFork: while other processes are started, and copies of this one's
// memory with them, the device goes on to use the memory that this one sees.
func TestMemoryAndFork(t *testing.T) {
	fabric(t)
	noLeak(t)
	c, s := connect(t, setup{}, setup{})
	slice := make([]byte, 4096)
	mr := must(s.PD().RegMR(slice, allAccess))(t)
	closeLater(t, mr)
	start(t, exec.Command("sleep", "1000")) // ends with the test
	pattern(slice, 5)
	c.post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.mr.SGE(0, 4096)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()})
	c.sent("1 RDMA_READ success")
	if !bytes.Equal(slice, c.mr.Bytes()[:4096]) {
		t.Error("the device reads other memory")
	}
}

// TestMemoryRefused pins what registering says when it can't.
func TestMemoryRefused(t *testing.T) {
	noLeak(t)
	k := newKit(t)
	readOnly := must(syscall.Mmap(-1, 0, 4096, syscall.PROT_READ, syscall.MAP_PRIVATE|syscall.MAP_ANON))(t)
	defer syscall.Munmap(readOnly)
	noHugeWords, noHuge := withoutHugePages()
	for _, test := range []struct {
		register func() (*uverbs.MR, error)
		is       error
		want     string
	}{
		{func() (*uverbs.MR, error) { return k.pd.RegMR(nil, allAccess) }, syscall.EINVAL,
			"create MR on gvsiw0: invalid argument: the memory is empty"},
		{func() (*uverbs.MR, error) { return k.pd.RegMR(make([]byte, 8), verbs.AccessRemoteWrite) }, syscall.EINVAL,
			"create MR on gvsiw0: invalid argument: remote write and remote atomic need AccessLocalWrite too"},
		{func() (*uverbs.MR, error) { return k.pd.RegMR(readOnly, verbs.AccessLocalWrite) }, syscall.EFAULT,
			"create MR on gvsiw0: bad address: the memory is not mapped, or not writable although the access flags say so"},
		{func() (*uverbs.MR, error) { return k.pd.AllocMR(8, 0, &uverbs.MROptions{Huge: true}) }, noHuge,
			"allocate memory for MR on gvsiw0: mmap: 2097152 bytes of anonymous memory: " + noHugeWords},
	} {
		_, err := test.register()
		if !errors.Is(err, test.is) || err.Error() != "uverbs: "+test.want {
			t.Errorf("%v\nwant %s", err, test.want)
		}
	}
}

// TestCloseOrder: an object in use does not close, and the error names its users.
func TestCloseOrder(t *testing.T) {
	noLeak(t)
	k := newKit(t)
	qp := k.qp(t)
	srq := must(k.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1, MaxSGE: 1}))(t)
	closeLater(t, srq)
	more := [3]*uverbs.PD{}
	for i := range more {
		more[i] = must(k.dev.AllocPD())(t)
	}
	for object, holders := range map[interface{ Close() error }]string{
		k.pd:      fmt.Sprintf("close MR, QP %d, SRQ first", qp.Num()),
		k.channel: "close CQ first",
		k.cq:      fmt.Sprintf("close QP %d first", qp.Num()),
		k.dev:     "close CQ, PD, PD, PD, PD, completion channel first",
	} {
		err := object.Close()
		if !errors.Is(err, verbs.ErrInUse) || !strings.HasSuffix(number.ReplaceAllString(err.Error(), "$1"), ": in use: "+holders) {
			t.Errorf("%v\nwant %s", err, holders)
		}
	}
	for _, pd := range more {
		if err := pd.Close(); err != nil {
			t.Error(err)
		}
		if err := pd.Close(); !errors.Is(err, verbs.ErrClosed) {
			t.Error(err)
		}
		if _, err := pd.RegMR(make([]byte, 8), 0); !errors.Is(err, verbs.ErrClosed) {
			t.Error(err)
		}
	}
}

// number is the kernel's number of an object that no test knows.
var number = regexp.MustCompile(`\b(completion channel|AH|MR|MW|SRQ|CQ|PD) \d+`)
