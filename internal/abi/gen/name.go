package main

import (
	"debug/dwarf"
	"fmt"
	"strings"
)

// unions has the Go fields of unions for which neither the first member nor plain bytes will do.
// The key is the struct's C name and the member that godefs shows.
var unions = map[string]goField{
	"struct siw_cqe.base_qp":          {"qp_id", "uint64"}, // base_qp is the kernel's pointer; user space reads the number
	"struct ib_uverbs_attr.attr_data": {"attr_data", "uint16"},
	"struct ib_uverbs_wc.ex":          {"ex", "uint32"},
	"struct ib_uverbs_send_wr.ex":     {"ex", "uint32"},
	"struct rxe_send_wr.ex":           {"ex", "uint32"},
}

// name gives godefs's fields the names of their C members, and checks that the two match.
func name(c *cHeaders, g *goDefs) error {
	for _, s := range c.Structs {
		fields := g.Structs[camel(s.C)]
		i := 0
		for j := range fields {
			f := &fields[j]
			if strings.HasPrefix(f.Name, "Pad_cgo_") {
				f.Name = "_"
				continue
			}
			if i == len(s.Fields) {
				return fmt.Errorf("%s: godefs has a field %s too many", s.C, f.Name)
			}
			if err := nameField(s, &s.Fields[i], f); err != nil {
				return err
			}
			i++
		}
		if i != len(s.Fields) {
			return fmt.Errorf("%s: godefs has %d of %d members", s.C, i, len(s.Fields))
		}
	}
	return nil
}

// nameField joins one pair. godefs may have cut a prefix off the name, and puts an X before an underscore.
func nameField(s *cStruct, c *cField, f *goField) error {
	if !strings.HasSuffix(camel(c.Name), camel(strings.TrimPrefix(f.Name, "X_"))) {
		return fmt.Errorf("%s.%s became %s", s.C, c.Name, f.Name)
	}
	if u, ok := unions[s.C+"."+c.Name]; ok {
		c.Name, f.Type = u.Name, u.Type
	}
	if t, ok := c.Type.(*dwarf.StructType); ok && t.Kind == "struct" {
		switch t.StructName {
		case "":
			f.Type = camel(s.C) + camel(c.Name)
		case "__kernel_sockaddr_storage":
			f.Type = fmt.Sprintf("[%d]uint8", t.ByteSize) // any family's address, laid out through SockaddrIn or SockaddrIn6
		}
	}
	c.Go = camel(c.Name)
	f.Name = c.Go
	return nil
}
