package trace

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/abi"
)

// at is a memory that has these bytes at an address, and nothing else.
func at(addr uint64, b []byte) memory {
	return func(from uint64, size int) []byte {
		if from < addr || from+uint64(size) > addr+uint64(len(b)) {
			return nil
		}
		return b[from-addr:][:size]
	}
}

type attr struct {
	id, length uint16
	data       uint64
}

// request lays out an RDMA_VERBS_IOCTL.
func request(object, method uint16, attrs ...attr) []byte {
	ne := binary.NativeEndian
	b := make([]byte, requestHead)
	ne.PutUint16(b, uint16(requestHead+attributeSize*len(attrs)))
	ne.PutUint16(b[2:], object)
	ne.PutUint16(b[4:], method)
	ne.PutUint16(b[6:], uint16(len(attrs)))
	for _, a := range attrs {
		b = ne.AppendUint16(b, a.id)
		b = ne.AppendUint16(b, a.length)
		b = append(b, 0, 0, 0, 0)
		b = ne.AppendUint64(b, a.data)
	}
	return b
}

func TestIoctl(t *testing.T) {
	for want, b := range map[string][]byte{
		"CQ CQ_CREATE CREATE_CQ_HANDLE 7 CREATE_CQ_CQE (4 bytes) UHW_OUT (16 bytes)": request(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE,
			attr{abi.UVERBS_ATTR_CREATE_CQ_HANDLE, 0, 7}, attr{abi.UVERBS_ATTR_CREATE_CQ_CQE, 4, 100}, attr{abi.UVERBS_ATTR_UHW_OUT, 16, 1 << 40}),
		"INVOKE_WRITE REG_MR CORE_IN (40 bytes)": request(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE,
			attr{abi.UVERBS_ATTR_CORE_IN, 40, 1}, attr{abi.UVERBS_ATTR_WRITE_CMD, 0, abi.IB_USER_VERBS_CMD_REG_MR}),
		"INVOKE_WRITE CREATE_FLOW (extended)": request(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE,
			attr{abi.UVERBS_ATTR_WRITE_CMD, 0, abi.IB_USER_VERBS_CMD_FLAG_EXTENDED | abi.IB_USER_VERBS_EX_CMD_CREATE_FLOW}),
		"object 0x1000 method 0x1001 attribute 0x77 -1": request(0x1000, 0x1001, attr{0x77, 0, ^uint64(0)}),
	} {
		name, args := ioctl(at(1<<20, b), 1<<20)
		got := name
		for _, a := range args {
			got += " " + a.Name + " " + a.Value
		}
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestWrite(t *testing.T) {
	command := func(n uint32, rest ...byte) []byte {
		return append(binary.NativeEndian.AppendUint32(nil, n), append([]byte{0, 0, 0, 0}, rest...)...)
	}
	for _, test := range []struct {
		node, want string
		b          []byte
		response   uint64
	}{
		{"uverbs0", "POST_SEND", command(abi.IB_USER_VERBS_CMD_POST_SEND), 0},
		{"uverbs0", "QUERY_DEVICE (extended)", command(abi.IB_USER_VERBS_CMD_FLAG_EXTENDED | abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE), 0},
		{"uverbs0", "command 0x77", command(0x77), 0},
		{"rdma_cm", "RESOLVE_ADDR", command(abi.RDMA_USER_CM_CMD_RESOLVE_ADDR), 0},
		{"rdma_cm", "GET_EVENT", command(abi.RDMA_USER_CM_CMD_GET_EVENT, binary.NativeEndian.AppendUint64(nil, 0x1234)...), 0x1234},
		{"rdma_cm", "command that is too short", []byte("abc"), 0},
	} {
		name, response := write(at(4096, test.b), test.node, 4096, uint64(len(test.b)))
		if name != test.want || response != test.response {
			t.Errorf("%s %#x, want %s", name, response, test.want)
		}
	}
	if name, _ := write(at(0, nil), "uverbs0", 4096, 8); name != "command that can't be read" {
		t.Error(name)
	}
}

func TestEvent(t *testing.T) {
	b := make([]byte, 20)
	binary.NativeEndian.PutUint32(b[8:], 5)
	binary.NativeEndian.PutUint32(b[12:], abi.RDMA_CM_EVENT_REJECTED)
	binary.NativeEndian.PutUint32(b[16:], 28)
	want := []Arg{{"event", "REJECTED"}, {"id", "5"}, {"status", "28"}}
	if diff := cmp.Diff(want, event(at(8, b), 8)); diff != "" {
		t.Error(diff)
	}
}

func TestParse(t *testing.T) {
	for line, want := range map[string]settings{
		"-- ls -j":          {words: []string{"ls", "-j"}},
		"-j -o x ls -- -o":  {to: "x", asJSON: true, words: []string{"ls", "--", "-o"}},
		"--output=x -j a":   {to: "x", asJSON: true, words: []string{"a"}},
		"-jox -- --strange": {to: "x", asJSON: true, words: []string{"--strange"}},
	} {
		got, err := parse(strings.Fields(line))
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(settings{})); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", line, err, diff)
		}
	}
	for _, line := range []string{"", "--", "-j --", "-o", "-x ls"} {
		var usage cli.UsageError
		if _, err := parse(strings.Fields(line)); !errors.As(err, &usage) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestNoProgram(t *testing.T) {
	if err := follow(context.Background(), []string{"/no/such/program"}, nil); err == nil {
		t.Error("it ran")
	}
}

// FuzzIoctl checks that no request causes a panic.
func FuzzIoctl(f *testing.F) {
	f.Add(request(4, 0, attr{1, 2, 3}), uint64(4096))
	f.Fuzz(func(t *testing.T, b []byte, addr uint64) {
		ioctl(at(4096, b), addr)
		write(at(4096, b), nodeCM, addr, uint64(len(b)))
		event(at(4096, b), addr)
	})
}
