package ioctl

import (
	"bytes"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/debug"
)

// TestDebug checks the lines that GOVERBS_DEBUG=ioctl prints, and that a Command prints none.
func TestDebug(t *testing.T) {
	var answer error
	f := file(func(r *Request) error {
		if answer == nil {
			r.SetObject(2, 0x17)
		}
		return answer
	})
	big := [9]byte{1}
	ask := func() error {
		r := New(18, abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE)
		defer r.Free()
		r.Handle(1, 3)
		r.NewObject(2)
		r.U32(3, 7)
		r.Enum(4, 5)
		In(r, 0x1000, &big)
		return r.Do(f)
	}
	command := func(n uint32) error {
		r := Write(18, n, &big)
		defer r.Free()
		return r.Do(f)
	}
	var b bytes.Buffer
	defer debug.Capture(&b, "ioctl")()
	ask()
	answer = syscall.EPROTONOSUPPORT
	if err := ask(); !Unsupported(err) || !strings.Contains(err.Error(), "QP_CREATE") {
		t.Errorf("the error changed: %v", err)
	}
	answer = syscall.EINVAL
	command(abi.IB_USER_VERBS_CMD_CREATE_AH)
	command(Extended(abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE))
	answer = nil
	r := New(18, 0x99, 0x77)
	r.Do(f)
	c := NewCommand[[4]uint64, struct{}](f, 18, abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, [4]uint64{})
	if err := c.Do(); err != nil {
		t.Error(err)
	}
	want := []string{
		`QP\.QP_CREATE 0x1=0x3 0x2=0x17 0x3\[4\]=0x7 0x4=5 0x1000\[9\]: ok`,
		`QP\.QP_CREATE 0x1=0x3 0x2=0x0 0x3\[4\]=0x7 0x4=5 0x1000\[9\]: EPROTONOSUPPORT`,
		`DEVICE\.INVOKE_WRITE CREATE_AH .*: EINVAL`,
		`DEVICE\.INVOKE_WRITE QUERY_DEVICE .*: EINVAL`,
		`0x99\.0x77: ok`,
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i, line := range lines {
		if i >= len(want) || !regexp.MustCompile(`^goverbs: [0-9:.]+ ioctl `+want[i]+` \([0-9.]+[µnm]?s\)$`).MatchString(line) {
			t.Errorf("line %d: %s", i, line)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("%d lines, want %d", len(lines), len(want))
	}
}
