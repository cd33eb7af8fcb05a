package main

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goverbs/goverbs/internal/abi/gen/headers"
)

// cField is a member of a C struct; Go is the field it becomes.
type cField struct {
	Name string
	Type dwarf.Type
	Go   string
}

// cStruct is a struct, or a typedef of one that has no tag.
type cStruct struct {
	C      string // as written in C: "struct x" or a typedef's name
	Header string
	Size   int64
	Fields []cField
}

// cConsts are the constants of one enum, or the macros of one header.
type cConsts struct {
	Title  string
	Header string
	Names  []string
}

// cHeaders has the declarations of the headers, in their order.
type cHeaders struct {
	Structs []*cStruct
	Consts  []*cConsts
}

// wanted has the headers whose declarations become Go. Of other headers only the structs in extra do.
var wanted = map[string]bool{
	"ib_user_sa.h": true, "ib_user_verbs.h": true, "ib_user_ioctl_cmds.h": true, "ib_user_ioctl_verbs.h": true,
	"rdma_user_ioctl_cmds.h": true, "rdma_user_cm.h": true, "rdma_netlink.h": true, "siw-abi.h": true, "rdma_user_rxe.h": true, "erdma-abi.h": true, "efa-abi.h": true, "mlx5-abi.h": true, "mlx5_user_ioctl_cmds.h": true, "mlx5_user_ioctl_verbs.h": true,
	"kernel_enums.h": true,
}

// extra has structs of other headers that are types of members of the wanted ones.
var extra = map[string]bool{"sockaddr_in": true, "sockaddr_in6": true, "in_addr": true, "in6_addr": true}

func compiler() string {
	if cc := os.Getenv("CC"); cc != "" {
		return cc
	}
	return "gcc"
}

// scan lists the declarations of the preamble's headers.
func scan(tmp, include, preamble string) (*cHeaders, error) {
	src := filepath.Join(tmp, "scan.c")
	if err := os.WriteFile(src, []byte(headers.CText(preamble)), 0o644); err != nil {
		return nil, err
	}
	obj := filepath.Join(tmp, "scan.o")
	if _, err := cc(include, "-g", "-fno-eliminate-unused-debug-types", "-c", "-o", obj, src); err != nil {
		return nil, err
	}
	c := &cHeaders{}
	if err := scanTypes(obj, c); err != nil {
		return nil, err
	}
	text, err := cc(include, "-E", "-dD", src)
	if err != nil {
		return nil, err
	}
	scanMacros(text, c)
	return c, nil
}

func cc(include string, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := exec.Command(compiler(), append(headers.Flags(include), args...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w: %s", cmd.Args, err, stderr.String())
	}
	return out, nil
}

func scanTypes(obj string, c *cHeaders) error {
	f, err := elf.Open(obj)
	if err != nil {
		return err
	}
	defer f.Close()
	d, err := f.DWARF()
	if err != nil {
		return err
	}
	var files []*dwarf.LineFile
	for r := d.Reader(); ; {
		e, err := r.Next()
		if err != nil {
			return err
		}
		if e == nil {
			return nil
		}
		if e.Tag == dwarf.TagCompileUnit {
			lines, err := d.LineReader(e)
			if err != nil {
				return err
			}
			files = lines.Files()
			continue
		}
		if n, ok := e.Val(dwarf.AttrDeclFile).(int64); ok && n < int64(len(files)) {
			if err := scanType(d, e, files[n].Name, c); err != nil {
				return err
			}
		}
		r.SkipChildren()
	}
}

// armsOf stands for a header's name where types.go.in names the arms of unions.
const armsOf = "unions"

// scanType adds one top-level declaration.
func scanType(d *dwarf.Data, e *dwarf.Entry, file string, c *cHeaders) error {
	tag, _ := e.Val(dwarf.AttrName).(string)
	header := filepath.Base(file)
	arm := header == "scan.c" && e.Tag == dwarf.TagTypedef // an ARM line of types.go.in
	if !wanted[header] && !extra[tag] && !arm {
		return nil
	}
	t, err := d.Type(e.Offset)
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case *dwarf.StructType:
		if t.Kind == "struct" && tag != "" && !t.Incomplete {
			c.Structs = append(c.Structs, newStruct("struct "+tag, header, t))
		}
	case *dwarf.TypedefType:
		if s, ok := t.Type.(*dwarf.StructType); ok && arm {
			c.Structs = append(c.Structs, newStruct(tag, armsOf, s))
		}
	case *dwarf.EnumType:
		k := &cConsts{Title: "enum " + tag, Header: header}
		if tag == "" {
			k.Title = "An enum without a name."
		}
		for _, v := range t.Val {
			k.Names = append(k.Names, v.Name)
		}
		c.Consts = append(c.Consts, k)
	}
	return nil
}

// newStruct lists the members whose size is not 0. It leaves out arrays without a fixed length.
func newStruct(c, header string, t *dwarf.StructType) *cStruct {
	s := &cStruct{C: c, Header: header, Size: t.ByteSize}
	for _, f := range t.Field {
		name, typ := f.Name, f.Type
		if u, ok := typ.(*dwarf.StructType); ok && name == "" && len(u.Field) > 0 {
			name, typ = u.Field[0].Name, u.Field[0].Type // like godefs: a union without a name is its first member
		}
		if typ.Size() > 0 {
			s.Fields = append(s.Fields, cField{Name: name, Type: typ})
		}
	}
	return s
}

var (
	lineMarker = regexp.MustCompile(`^# \d+ "(.*)"`)
	macro      = regexp.MustCompile(`^#define ([A-Z][A-Za-z0-9_]*) +([^" ].*)$`)
)

// scanMacros adds the object-like macros whose value is not a string.
func scanMacros(text []byte, c *cHeaders) {
	groups := map[string]*cConsts{}
	header := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if m := lineMarker.FindStringSubmatch(line); m != nil {
			header = filepath.Base(m[1])
		}
		m := macro.FindStringSubmatch(line)
		if m == nil || !wanted[header] {
			continue
		}
		k := groups[header]
		if k == nil {
			k = &cConsts{Title: "Macros", Header: header}
			groups[header] = k
			c.Consts = append(c.Consts, k)
		}
		k.Names = append(k.Names, m[1])
	}
}
