package trace

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/rdmacm"
)

// memory reads the memory of the process that made a call. It returns nil for
// unreadable memory.
type memory func(addr uint64, size int) []byte

// Sizes of the kernel's structures.
const (
	requestHead   = 24
	attributeSize = 16
	commandHead   = 8
	mostBytes     = 16 << 10
)

// ioctl decodes an RDMA_VERBS_IOCTL request.
func ioctl(m memory, addr uint64) (name string, args []Arg) {
	head := m(addr, requestHead)
	if head == nil {
		return "request that can't be read", nil
	}
	ne := binary.NativeEndian
	size, object, number := int(ne.Uint16(head)), ne.Uint16(head[2:]), ne.Uint16(head[4:])
	method := named(abi.MethodName(uint32(object), uint32(number)), uint32(number), "method")
	name = named(abi.ObjectName(uint32(object)), uint32(object), "object") + " " + method
	if size < requestHead || size > mostBytes {
		return name, nil
	}
	all := m(addr+requestHead, size-requestHead)
	invokes := object == abi.UVERBS_OBJECT_DEVICE && number == abi.UVERBS_METHOD_INVOKE_WRITE
	for range min(int(ne.Uint16(head[6:])), len(all)/attributeSize) {
		id, length, data := ne.Uint16(all), ne.Uint16(all[2:]), ne.Uint64(all[8:])
		if invokes && id == abi.UVERBS_ATTR_WRITE_CMD {
			name = method + " " + commandName(uint32(data))
		} else {
			args = append(args, Arg{attributeName(object, number, id), attributeValue(length, data)})
		}
		all = all[attributeSize:]
	}
	return name, args
}

func attributeName(object, method, id uint16) string {
	switch id {
	case abi.UVERBS_ATTR_UHW_IN:
		return "UHW_IN"
	case abi.UVERBS_ATTR_UHW_OUT:
		return "UHW_OUT"
	}
	return named(abi.AttributeName(object, method, id), uint32(id), "attribute")
}

// attributeValue returns the number of an object, a constant or a descriptor, or else
// the size of the attribute's memory.
func attributeValue(length uint16, data uint64) string {
	if length == 0 {
		return fmt.Sprint(int64(data))
	}
	return fmt.Sprintf("(%d bytes)", length)
}

// commandName returns the name of a command of write(2), or in INVOKE_WRITE.
func commandName(command uint32) string {
	number := command & abi.IB_USER_VERBS_CMD_COMMAND_MASK
	if command&abi.IB_USER_VERBS_CMD_FLAG_EXTENDED != 0 {
		return named(abi.ExName(number), number, "command") + " (extended)"
	}
	return named(abi.WriteName(number), number, "command")
}

// write decodes a command that is written to a node.
func write(m memory, node string, addr, size uint64) (name string, response uint64) {
	if size < commandHead {
		return "command that is too short", 0
	}
	head := m(addr, commandHead)
	if head == nil {
		return "command that can't be read", 0
	}
	command := binary.NativeEndian.Uint32(head)
	if node != nodeCM {
		return commandName(command), 0
	}
	if command == abi.RDMA_USER_CM_CMD_GET_EVENT && size >= 2*commandHead {
		if where := m(addr+commandHead, 8); where != nil {
			response = binary.NativeEndian.Uint64(where)
		}
	}
	return named(abi.CMName(command), command, "command"), response
}

// nodeCM is rdma_cm's node.
const nodeCM = "rdma_cm"

// Call is a system call on RDMA's device nodes.
type Call struct {
	Thread int
	Node   string // uverbs0, rdma_cm
	Kind   string // open, ioctl, write
	Name   string // QP QP_CREATE, INVOKE_WRITE REG_MR, RESOLVE_IP
	Args   []Arg
	Result int64 // the error number if it is below 0
	Error  string
}

// Arg is an attribute of a request, or a field of an event.
type Arg struct {
	Name  string
	Value string
}

// String returns a line: uverbs0 ioctl PD PD_DESTROY DESTROY_PD_HANDLE 1 = 0.
func (c *Call) String() string {
	words := []string{fmt.Sprintf("[%d]", c.Thread), c.Node, c.Kind}
	if c.Name != "" {
		words = append(words, c.Name)
	}
	for _, a := range c.Args {
		words = append(words, a.Name, a.Value)
	}
	words = append(words, "=", fmt.Sprint(c.Result))
	if c.Error != "" {
		words = append(words, "("+c.Error+")")
	}
	return strings.Join(words, " ")
}

// table returns the call for JSON.
func (c *Call) table() table.Table {
	t := table.Table{{Key: "thread", Value: c.Thread}, {Key: "node", Value: c.Node}, {Key: "call", Value: c.Kind}}
	t.AddText("name", c.Name)
	var args table.Table
	for _, a := range c.Args {
		args.Add(a.Name, a.Value)
	}
	if args != nil {
		t.Add("args", args)
	}
	t.Add("result", c.Result)
	t.AddText("error", c.Error)
	return t
}

// event decodes the reply to GET_EVENT: the ID and the kind of event (struct
// rdma_ucm_event_resp).
func event(m memory, addr uint64) []Arg {
	b := m(addr, 20)
	if b == nil {
		return nil
	}
	id, kind, status := binary.NativeEndian.Uint32(b[8:]), binary.NativeEndian.Uint32(b[12:]), int32(binary.NativeEndian.Uint32(b[16:]))
	args := []Arg{{"event", rdmacm.EventType(kind).String()}, {"id", fmt.Sprint(id)}}
	if status != 0 {
		args = append(args, Arg{"status", fmt.Sprint(status)})
	}
	return args
}

// named returns the name of a number, or the number itself if it has none.
func named(name string, n uint32, what string) string {
	if name == "" {
		return fmt.Sprintf("%s %#x", what, n)
	}
	return name
}
