package trace

import (
	"encoding/binary"
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
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
	known, ok := methods[methodKey{object, number}]
	if !ok {
		known.name = fmt.Sprintf("method %#x", number)
	}
	name = named(objects, uint32(object), "object") + " " + known.name
	if size < requestHead || size > mostBytes {
		return name, nil
	}
	all := m(addr+requestHead, size-requestHead)
	invokes := object == abi.UVERBS_OBJECT_DEVICE && number == abi.UVERBS_METHOD_INVOKE_WRITE
	for range min(int(ne.Uint16(head[6:])), len(all)/attributeSize) {
		id, length, data := ne.Uint16(all), ne.Uint16(all[2:]), ne.Uint64(all[8:])
		if invokes && id == abi.UVERBS_ATTR_WRITE_CMD {
			name = known.name + " " + commandName(uint32(data))
		} else {
			args = append(args, Arg{attributeName(known, id), attributeValue(length, data)})
		}
		all = all[attributeSize:]
	}
	return name, args
}

func attributeName(m method, id uint16) string {
	switch name, ok := m.attributes[id]; {
	case ok:
		return name
	case id == abi.UVERBS_ATTR_UHW_IN:
		return "UHW_IN"
	case id == abi.UVERBS_ATTR_UHW_OUT:
		return "UHW_OUT"
	}
	return fmt.Sprintf("attribute %#x", id)
}

// attributeValue returns the number of an object, a constant or a descriptor, or else
// the size of the attribute's memory.
func attributeValue(length uint16, data uint64) string {
	if length == 0 {
		return fmt.Sprint(int64(data))
	}
	return fmt.Sprintf("(%d bytes)", length)
}

// commandName is a command of write(2), or in INVOKE_WRITE.
func commandName(command uint32) string {
	number := command & abi.IB_USER_VERBS_CMD_COMMAND_MASK
	if command&abi.IB_USER_VERBS_CMD_FLAG_EXTENDED != 0 {
		return named(exCommands, number, "command") + " (extended)"
	}
	return named(writeCommands, number, "command")
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
	return named(cmCommands, command, "command"), response
}

// nodeCM is rdma_cm's node.
const nodeCM = "rdma_cm"
