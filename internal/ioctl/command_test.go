package ioctl

import (
	"bytes"
	"encoding/binary"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
)

// writable is a file with write(2), until it refuses commands.
type writable struct {
	file
	wrote  [][]byte
	refuse error
}

func (w *writable) Command(command []byte) error {
	w.wrote = append(w.wrote, bytes.Clone(command))
	return w.refuse
}

func doorbell(f File) *Command {
	return NewCommand[abi.IbUverbsPostSend, abi.IbUverbsPostSendResp](f, 7, abi.IB_USER_VERBS_CMD_POST_SEND,
		abi.IbUverbsPostSend{QpHandle: 3, WqeSize: 128})
}

// TestCommand compares the bytes for write(2) with struct ib_uverbs_cmd_hdr and
// struct ib_uverbs_post_send.
func TestCommand(t *testing.T) {
	w := &writable{}
	c := doorbell(w)
	for range 2 {
		if err := c.Do(); err != nil {
			t.Fatal(err)
		}
	}
	for _, got := range w.wrote {
		want := binary.NativeEndian.AppendUint32(nil, 28)
		want = binary.NativeEndian.AppendUint16(want, 8)
		want = binary.NativeEndian.AppendUint16(want, 1)
		want = append(want, got[8:16]...) // where the answer goes
		for _, v := range []uint32{3, 0, 0, 128} {
			want = binary.NativeEndian.AppendUint32(want, v)
		}
		if !bytes.Equal(got, want) || binary.NativeEndian.Uint64(got[8:]) == 0 {
			t.Errorf("% x, want % x", got, want)
		}
	}
	arm := NewCommand[abi.IbUverbsReqNotifyCq, struct{}](w, 7, abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, abi.IbUverbsReqNotifyCq{CqHandle: 5})
	if err := arm.Do(); err != nil || !bytes.Equal(w.wrote[2][4:], []byte{4, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("% x, %v", w.wrote[2], err)
	}
}

// TestCommandByIoctl checks that a command uses ioctl if write(2) is refused or missing.
func TestCommandByIoctl(t *testing.T) {
	var asked [][]byte
	take := file(func(r *Request) error {
		asked = append(asked, wireBytes(r))
		return syscall.ENOSPC
	})
	for name, f := range map[string]File{"refused": &writable{file: take, refuse: syscall.EACCES}, "no write": take} {
		asked = nil
		c := doorbell(f)
		for range 3 {
			if err := c.Do(); err != syscall.ENOSPC {
				t.Errorf("%s: %v", name, err)
			}
		}
		if len(asked) != 3 || !bytes.Equal(asked[0], asked[2]) {
			t.Errorf("%s: % x", name, asked)
		}
		if w, ok := f.(*writable); ok && len(w.wrote) != 1 {
			t.Errorf("asked %d times where it was refused", len(w.wrote))
		}
	}
	w := &writable{file: take, refuse: syscall.EINVAL}
	if err := doorbell(w).Do(); err != syscall.EINVAL || len(asked) != 3 {
		t.Errorf("%v, another way after %d", err, len(asked))
	}
}
