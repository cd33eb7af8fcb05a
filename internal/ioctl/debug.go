package ioctl

import (
	"fmt"
	"strings"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/debug"
)

// printed issues a request and prints it.
func (r *Request) printed(f File) error {
	began := time.Now()
	err := f.Ioctl(r)
	debug.Print("ioctl", began, r.describe(), err)
	return err
}

// describe returns the object and the method of a request, and its attributes after the
// call: number, length, and value unless that is behind an address.
func (r *Request) describe() string {
	var b strings.Builder
	object, method := uint32(r.hdr.ObjectId), uint32(r.hdr.MethodId)
	fmt.Fprintf(&b, "%s.%s", named(abi.ObjectName(object), object), named(abi.MethodName(object, method), method))
	if command, ok := r.Command(); ok {
		fmt.Fprintf(&b, " %s", commandName(command))
	}
	for i := range r.attrs {
		a := &r.attrs[i]
		switch {
		case r.refs[i] != nil:
			fmt.Fprintf(&b, " %#x[%d]", a.AttrId, a.Len)
		case a.Len == 0 && a.AttrData != 0:
			fmt.Fprintf(&b, " %#x=%d", a.AttrId, a.AttrData)
		case a.Len == 0:
			fmt.Fprintf(&b, " %#x=%#x", a.AttrId, a.Data)
		default:
			fmt.Fprintf(&b, " %#x[%d]=%#x", a.AttrId, a.Len, a.Data)
		}
	}
	return b.String()
}

// commandName returns the name of a command that INVOKE_WRITE carries.
func commandName(command uint32) string {
	name := abi.WriteName(command)
	if n := command &^ abi.IB_USER_VERBS_CMD_FLAG_EXTENDED; n != command {
		name = abi.ExName(n)
	}
	return named(name, command)
}
