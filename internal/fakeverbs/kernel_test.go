package fakeverbs

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// TestStrict sends requests that the kernel would refuse.
func TestStrict(t *testing.T) {
	const driver = abi.RDMA_DRIVER_UNKNOWN
	cq := func(change func(r *ioctl.Request)) *ioctl.Request {
		r := ioctl.New(driver, abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE)
		r.NewObject(abi.UVERBS_ATTR_CREATE_CQ_HANDLE)
		r.U32(abi.UVERBS_ATTR_CREATE_CQ_CQE, 1)
		r.U64(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 1)
		ioctl.Out(r, abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, new(uint32))
		r.Driver(nil, make([]byte, 16))
		change(r)
		return r
	}
	vector := func(r *ioctl.Request) { r.U32(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 0) }
	for _, c := range []struct {
		name string
		r    *ioctl.Request
		want error
	}{
		{"good", cq(vector), nil},
		{"attribute missing", cq(func(*ioctl.Request) {}), syscall.EINVAL},
		{"attribute twice", cq(func(r *ioctl.Request) { vector(r); vector(r) }), syscall.EINVAL},
		{"attribute too long", cq(func(r *ioctl.Request) { r.U64(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 0) }), syscall.EINVAL},
		{"unknown attribute", cq(func(r *ioctl.Request) { vector(r); r.U32(77, 0) }), syscall.EPROTONOSUPPORT},
		{"no such channel", cq(func(r *ioctl.Request) { vector(r); r.FD(abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, 5) }), syscall.EBADF},
		{"handle with a length", cq(func(r *ioctl.Request) { vector(r); r.U32(abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, 5) }), syscall.EINVAL},
		{"other driver", ioctl.New(driver+1, abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE), syscall.EINVAL},
		{"no such object", ioctl.New(driver, 0xfff, 0), syscall.EPROTONOSUPPORT},
		{"no such command", ioctl.Write(driver, 99, new(uint64)), syscall.EOPNOTSUPP},
		{"short command", ioctl.Write(driver, abi.IB_USER_VERBS_CMD_REG_MR, new(uint64)), syscall.ENOSPC},
	} {
		k := New(driver)
		context := ioctl.New(driver, abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT)
		context.Driver(nil, make([]byte, 8))
		if err := context.Do(k); err != nil {
			t.Fatal(err)
		}
		if err := c.r.Do(k); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestPanic checks that a panic of the device ends the program although a cleanup of the test waits, as for a lock that
// the panicking call holds.
func TestPanic(t *testing.T) {
	if os.Getenv("GOVERBS_QEMU_USER") != "" {
		t.Skip("qemu-user does not run another program that it should emulate")
	}
	const child = "GOVERBS_TEST_PANIC"
	calls := map[string]func(k *Kernel){
		"ioctl": func(k *Kernel) {
			_ = ioctl.New(abi.RDMA_DRIVER_UNKNOWN, abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT).Do(k)
		},
		"write": func(k *Kernel) { _ = k.Command(nil) },
		"store": func(k *Kernel) { k.stored(0)(mmap.Store{}) },
	}
	if call := calls[os.Getenv(child)]; call != nil {
		t.Cleanup(func() { select {} })
		k := New(abi.RDMA_DRIVER_UNKNOWN)
		k.Tick = func() { panic("of the device") }
		call(k)
		t.Fatal("it goes on")
	}
	for name := range calls {
		c := exec.Command(os.Args[0], "-test.run=^TestPanic$", "-test.timeout=1m")
		c.Env = append(os.Environ(), child+"="+name)
		out, err := c.CombinedOutput()
		if s := string(out); err == nil || !strings.Contains(s, "panic: of the device") || !strings.Contains(s, "kernel_test.go:") {
			t.Errorf("%s: %v\n%s", name, err, s)
		}
	}
}
