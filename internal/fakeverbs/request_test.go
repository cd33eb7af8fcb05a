package fakeverbs_test

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/models"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// written is a file that records the bytes of a command.
type written struct {
	ioctl.File
	wire []byte
}

func (w *written) Command(wire []byte) error { w.wire = wire; return nil }

// TestCommandStrict changes the bytes that a doorbell writes. The fake refuses them as the
// kernel does.
func TestCommandStrict(t *testing.T) {
	const siw, rxe = abi.RDMA_DRIVER_SIW, abi.RDMA_DRIVER_RXE
	w := &written{}
	doorbell := ioctl.NewCommand[abi.IbUverbsPostSend, abi.IbUverbsPostSendResp](w, siw, abi.IB_USER_VERBS_CMD_POST_SEND,
		abi.IbUverbsPostSend{QpHandle: 3, WqeSize: 128})
	arm := ioctl.NewCommand[abi.IbUverbsReqNotifyCq, struct{}](w, siw, abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, abi.IbUverbsReqNotifyCq{CqHandle: 3})
	for name, c := range map[string]struct {
		driver uint32
		cmd    *ioctl.Command
		change func(wire []byte) []byte
		want   error
	}{
		"no such QP":         {siw, doorbell, nil, syscall.EINVAL},
		"no such CQ":         {rxe, arm, nil, syscall.ENOENT},
		"siw arms in memory": {siw, arm, nil, syscall.EOPNOTSUPP},
		"nothing":            {siw, doorbell, func([]byte) []byte { return nil }, syscall.EINVAL},
		"a header":           {siw, doorbell, func(b []byte) []byte { return b[:8] }, syscall.EINVAL},
		"another command":    {siw, doorbell, func(b []byte) []byte { b[0] = 9; return b }, syscall.ENOSPC},
		"the wrong length":   {siw, doorbell, func(b []byte) []byte { b[4]++; return b }, syscall.EINVAL},
		"too short": {siw, doorbell, func(b []byte) []byte {
			b[4] -= 2
			return b[:len(b)-8]
		}, syscall.ENOSPC},
		"no room for the answer": {siw, doorbell, func(b []byte) []byte { b[6] = 0; return b }, syscall.ENOSPC},
		"an answer to nowhere": {siw, doorbell, func(b []byte) []byte {
			binary.NativeEndian.PutUint64(b[8:], 0)
			return b
		}, syscall.EFAULT},
	} {
		k := fakeverbs.New(c.driver)
		context := ioctl.New(c.driver, abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT)
		context.Driver(nil, make([]byte, 8))
		if err := errors.Join(context.Do(k), c.cmd.Do()); err != nil {
			t.Fatal(err)
		}
		wire := w.wire
		before := string(wire)
		if c.change != nil {
			wire = c.change(wire)
		}
		if err := k.Command(wire); err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		copy(w.wire, before)
		k.OtherCredentials = true
		if err := k.Command(w.wire); err != syscall.EACCES {
			t.Errorf("%s: %v with other credentials", name, err)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
		if err := k.Command(w.wire); err != syscall.EBADF {
			t.Errorf("%s: %v after Close", name, err)
		}
	}
}

// TestWriteLengths checks that write(2) checks the lengths of every command that the kernel knows,
// before it looks at what the command does.
func TestWriteLengths(t *testing.T) {
	k := fakeverbs.New(abi.RDMA_DRIVER_RXE)
	wire := func(command, words uint32) []byte {
		b := binary.NativeEndian.AppendUint32(nil, command)
		return append(binary.NativeEndian.AppendUint32(b, words), make([]byte, 16)...)
	}
	for _, c := range []struct {
		command, words uint32
		want           error
	}{
		{abi.IB_USER_VERBS_CMD_ALLOC_PD, 99, syscall.EINVAL},
		{abi.IB_USER_VERBS_CMD_ALLOC_PD, 6 | 1<<16, syscall.EOPNOTSUPP},
		{abi.IB_USER_VERBS_CMD_REG_MR, 6, syscall.ENOSPC},
		{0xff, 99, syscall.EINVAL},
		{0xff, 6, syscall.EOPNOTSUPP},
		{0x100, 6, syscall.EINVAL},
	} {
		if err := k.Command(wire(c.command, c.words)); err != c.want {
			t.Errorf("command %d of %#x words: %v, want %v", c.command, c.words, err, c.want)
		}
	}
}
