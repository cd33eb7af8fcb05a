package trace

import (
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
)

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

// String is a line: uverbs0 ioctl PD PD_DESTROY DESTROY_PD_HANDLE 1 = 0.
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

// table is the call for JSON.
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
