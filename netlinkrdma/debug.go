package netlinkrdma

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/debug"
)

// printExecute executes a request and prints it.
func printExecute(k Kernel, req Request) ([][]byte, error) {
	began := time.Now()
	replies, err := k.Execute(req)
	printCall(began, req, len(replies), err)
	return replies, err
}

// printStream prints a request once all replies have been given to f.
func printStream(k Kernel, req Request, f func(reply []byte) bool) error {
	began, replies := time.Now(), 0
	err := streamFrom(k, req, func(reply []byte) bool {
		replies++
		return f(reply)
	})
	printCall(began, req, replies, err)
	return err
}

func printCall(began time.Time, req Request, replies int, err error) {
	debug.Print("netlink", began, req.describe(replies), err)
}

// describe returns the name of a request's command and those of its attributes. The
// values of small attributes follow the names.
func (r Request) describe(replies int) string {
	var b strings.Builder
	b.WriteString(commandName(r.Op))
	if r.Dump {
		b.WriteString(" dump")
	}
	for _, a := range r.Attrs {
		fmt.Fprintf(&b, " %s%s", attrName(a.Type&attrTypeMask), a.describe())
	}
	fmt.Fprintf(&b, ", %d replies", replies)
	return b.String()
}

// describe returns an attribute's value if it is short, or else its length.
func (a Attr) describe() string {
	switch {
	case a.Type&flagNested != 0 || len(a.Value) > maxDeviceName+1:
		return fmt.Sprintf("[%d]", len(a.Value))
	case a.Type == abi.RDMA_NLDEV_ATTR_DEV_NAME, a.Type == abi.RDMA_NLDEV_ATTR_NDEV_NAME,
		a.Type == abi.RDMA_NLDEV_ATTR_LINK_TYPE, a.Type == abi.RDMA_NLDEV_ATTR_CHARDEV_TYPE:
		return fmt.Sprintf("=%q", strings.TrimSuffix(string(a.Value), "\x00"))
	case len(a.Value) == 1:
		return fmt.Sprintf("=%d", a.Value[0])
	case len(a.Value) == 4:
		return fmt.Sprintf("=%d", binary.NativeEndian.Uint32(a.Value))
	}
	return fmt.Sprintf("=%x", a.Value)
}

// commandNames are the names of the kernel's commands, without RDMA_NLDEV_CMD_.
var commandNames = [...]string{
	abi.RDMA_NLDEV_CMD_UNSPEC:          "UNSPEC",
	abi.RDMA_NLDEV_CMD_GET:             "GET",
	abi.RDMA_NLDEV_CMD_SET:             "SET",
	abi.RDMA_NLDEV_CMD_NEWLINK:         "NEWLINK",
	abi.RDMA_NLDEV_CMD_DELLINK:         "DELLINK",
	abi.RDMA_NLDEV_CMD_PORT_GET:        "PORT_GET",
	abi.RDMA_NLDEV_CMD_SYS_GET:         "SYS_GET",
	abi.RDMA_NLDEV_CMD_SYS_SET:         "SYS_SET",
	abi.RDMA_NLDEV_CMD_RES_GET:         "RES_GET",
	abi.RDMA_NLDEV_CMD_RES_QP_GET:      "RES_QP_GET",
	abi.RDMA_NLDEV_CMD_RES_CM_ID_GET:   "RES_CM_ID_GET",
	abi.RDMA_NLDEV_CMD_RES_CQ_GET:      "RES_CQ_GET",
	abi.RDMA_NLDEV_CMD_RES_MR_GET:      "RES_MR_GET",
	abi.RDMA_NLDEV_CMD_RES_PD_GET:      "RES_PD_GET",
	abi.RDMA_NLDEV_CMD_GET_CHARDEV:     "GET_CHARDEV",
	abi.RDMA_NLDEV_CMD_STAT_SET:        "STAT_SET",
	abi.RDMA_NLDEV_CMD_STAT_GET:        "STAT_GET",
	abi.RDMA_NLDEV_CMD_STAT_DEL:        "STAT_DEL",
	abi.RDMA_NLDEV_CMD_RES_QP_GET_RAW:  "RES_QP_GET_RAW",
	abi.RDMA_NLDEV_CMD_RES_CQ_GET_RAW:  "RES_CQ_GET_RAW",
	abi.RDMA_NLDEV_CMD_RES_MR_GET_RAW:  "RES_MR_GET_RAW",
	abi.RDMA_NLDEV_CMD_RES_CTX_GET:     "RES_CTX_GET",
	abi.RDMA_NLDEV_CMD_RES_SRQ_GET:     "RES_SRQ_GET",
	abi.RDMA_NLDEV_CMD_STAT_GET_STATUS: "STAT_GET_STATUS",
	abi.RDMA_NLDEV_CMD_RES_SRQ_GET_RAW: "RES_SRQ_GET_RAW",
	abi.RDMA_NLDEV_CMD_NEWDEV:          "NEWDEV",
	abi.RDMA_NLDEV_CMD_DELDEV:          "DELDEV",
	abi.RDMA_NLDEV_CMD_MONITOR:         "MONITOR",
	abi.RDMA_NLDEV_CMD_FRMR_POOLS_GET:  "FRMR_POOLS_GET",
	abi.RDMA_NLDEV_CMD_FRMR_POOLS_SET:  "FRMR_POOLS_SET",
}

// commandName returns the name of a command, or its number.
func commandName(op uint16) string {
	if int(op) < len(commandNames) && commandNames[op] != "" {
		return commandNames[op]
	}
	return fmt.Sprintf("command %d", op)
}
