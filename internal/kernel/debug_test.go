package kernel

import (
	"bytes"
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/debug"
)

// fakeCM answers every command with fixed bytes.
type fakeCM struct {
	CM
	answer []byte
	err    error
}

func (f *fakeCM) Command(_, out []byte) error {
	copy(out, f.answer)
	return f.err
}

func (f *fakeCM) Await(_ context.Context, in, out []byte) error { return f.Command(in, out) }
func (f *fakeCM) Close() error                                  { return nil }

type cmKernel struct {
	plain
	cm CM
}

func (k *cmKernel) OpenCM() (CM, error) { return k.cm, nil }

// wire returns a command with its header.
func wire[T any](command uint32, body T) []byte {
	header := abi.RdmaUcmCmdHdr{Cmd: command}
	return append(bytes.Clone(abi.Bytes(&header)), abi.Bytes(&body)...)
}

// TestDebug checks the lines that GOVERBS_DEBUG=cm prints.
func TestDebug(t *testing.T) {
	fake := &fakeCM{}
	k := &cmKernel{cm: fake}
	if c, err := OpenCM(k); c != CM(fake) || err != nil {
		t.Fatal("a channel that is not printed is wrapped", err)
	}
	var b bytes.Buffer
	defer debug.Capture(&b, "cm")()
	c, err := OpenCM(k)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 512)
	created := abi.RdmaUcmCreateIdResp{Id: 5}
	fake.answer = abi.Bytes(&created)
	c.Command(wire(abi.RDMA_USER_CM_CMD_CREATE_ID, abi.RdmaUcmCreateId{}), out)
	event := abi.RdmaUcmEventResp{Id: 5, Event: abi.RDMA_CM_EVENT_UNREACHABLE, Status: ^uint32(109)}
	fake.answer = abi.Bytes(&event)
	c.Await(t.Context(), wire(abi.RDMA_USER_CM_CMD_GET_EVENT, abi.RdmaUcmGetEvent{}), out)
	event.Event = 99
	c.Await(t.Context(), wire(abi.RDMA_USER_CM_CMD_GET_EVENT, abi.RdmaUcmGetEvent{}), out)
	fake.err = syscall.ENODEV
	c.Command(wire(abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, abi.RdmaUcmResolveAddr{Id: 6}), nil)
	c.Command(wire(abi.RDMA_USER_CM_CMD_CREATE_ID, abi.RdmaUcmCreateId{}), out)
	c.Command(wire(77, struct{}{}), nil)
	c.Command([]byte{1}, nil)
	fake.err = context.Canceled
	c.Await(t.Context(), wire(abi.RDMA_USER_CM_CMD_GET_EVENT, abi.RdmaUcmGetEvent{}), out)
	c.Close()
	want := []string{
		`open /dev/infiniband/rdma_cm: ok`,
		`CREATE_ID ID 5: ok`,
		`GET_EVENT UNREACHABLE ID 5 status -110: ok`,
		`GET_EVENT event 99 ID 5 status -110: ok`,
		`RESOLVE_ADDR ID 6: ENODEV`,
		`CREATE_ID: ENODEV`,
		`command 77: ENODEV`,
		`DESTROY_ID ID 0: ENODEV`,
		`GET_EVENT: context canceled`,
		`close: ok`,
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i, line := range lines {
		if i >= len(want) || !regexp.MustCompile(`^goverbs: [0-9:.]+ cm `+want[i]+` \([0-9.]+[µnm]?s\)$`).MatchString(line) {
			t.Errorf("line %d: %s", i, line)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("%d lines, want %d", len(lines), len(want))
	}
}

// TestDebugOpen checks the line of an opened device.
func TestDebugOpen(t *testing.T) {
	defer Register(&plain{node: "mine", err: syscall.EACCES})()
	var b bytes.Buffer
	defer debug.Capture(&b, "ioctl")()
	OpenDevice("mine", 0)
	if !strings.Contains(b.String(), " ioctl open mine: EACCES (") {
		t.Errorf("%q", b.String())
	}
}

// TestDebugNames compares the names and the IDs of commands with the kernel's header.
func TestDebugNames(t *testing.T) {
	noID := map[uint32]bool{abi.RDMA_USER_CM_CMD_CREATE_ID: true, abi.RDMA_USER_CM_CMD_GET_EVENT: true, abi.RDMA_USER_CM_CMD_GET_OPTION: true}
	for name, v := range constants(t, "zrdma_user_cm_h.go", "RDMA_USER_CM_CMD_") {
		if int(v) >= len(cmCommands) || cmCommands[v] != name {
			t.Errorf("command %d is %s", v, name)
		}
		if _, ok := cmID(v, nil); ok == noID[v] {
			t.Errorf("%s: has an ID: %t", name, ok)
		}
	}
	for name, v := range constants(t, "zkernel_enums_h.go", "RDMA_CM_EVENT_") {
		if got := eventName(v); got != name {
			t.Errorf("event %d is %s, want %s", v, got, name)
		}
	}
}

// constants returns the constants of a generated file by their names without a prefix.
func constants(t *testing.T, file, prefix string) map[string]uint32 {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../abi/"+file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]uint32)
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if name, ok := strings.CutPrefix(spec.Names[0].Name, prefix); ok {
				v, err := strconv.ParseUint(spec.Values[0].(*ast.BasicLit).Value, 0, 32)
				if err != nil {
					t.Fatal(err)
				}
				found[name] = uint32(v)
			}
		}
		return true
	})
	if len(found) < 10 {
		t.Fatalf("%d constants %s", len(found), prefix)
	}
	return found
}
