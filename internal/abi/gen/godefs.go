package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goverbs/goverbs/internal/abi/gen/headers"
)

// goField is a field as godefs names and types it.
type goField struct{ Name, Type string }

// goDefs is godefs's answer: fields by the struct's Go name, values by the constant's.
type goDefs struct {
	Structs map[string][]goField
	Consts  map[string]string
}

// camel turns a C name into a Go one: every segment capitalised, nothing dropped.
func camel(c string) string {
	var b strings.Builder
	for _, seg := range strings.Split(strings.TrimPrefix(c, "struct "), "_") {
		if seg != "" {
			b.WriteString(strings.ToUpper(seg[:1]) + seg[1:])
		}
	}
	return b.String()
}

// godefs asks cgo for the layout of everything in c.
func godefs(tmp, include, preamble string, c *cHeaders) (*goDefs, error) {
	var in strings.Builder
	in.WriteString(preamble)
	for _, s := range c.Structs {
		fmt.Fprintf(&in, "type %s C.%s\n", camel(s.C), strings.Replace(s.C, "struct ", "struct_", 1))
	}
	for _, k := range c.Consts {
		for _, n := range k.Names {
			fmt.Fprintf(&in, "const %s = C.%s\n", n, n)
		}
	}
	if err := os.WriteFile(filepath.Join(tmp, "types.go"), []byte(in.String()), 0o644); err != nil {
		return nil, err
	}
	args := append([]string{"tool", "cgo", "-godefs", "-objdir", tmp, "--"}, headers.Flags(include)...)
	var stderr bytes.Buffer
	cmd := exec.Command("go", append(args, "types.go")...)
	cmd.Dir, cmd.Stderr = tmp, &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w: %s", cmd.Args, err, stderr.String())
	}
	return parseGodefs(out)
}

func parseGodefs(text []byte) (*goDefs, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "godefs.go", text, 0)
	if err != nil {
		return nil, err
	}
	g := &goDefs{Structs: map[string][]goField{}, Consts: map[string]string{}}
	for _, decl := range f.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				t, ok := s.Type.(*ast.StructType)
				if !ok {
					return nil, fmt.Errorf("godefs made %s something other than a struct", s.Name)
				}
				g.Structs[s.Name.Name] = goFields(t)
			case *ast.ValueSpec:
				g.Consts[s.Names[0].Name] = types.ExprString(s.Values[0])
			}
		}
	}
	return g, nil
}

var cStructRef = regexp.MustCompile(`_Ctype_struct_(\w+)`)

func goFields(t *ast.StructType) []goField {
	var fields []goField
	for _, f := range t.Fields.List {
		typ := cStructRef.ReplaceAllStringFunc(types.ExprString(f.Type), func(ref string) string {
			return camel(strings.TrimPrefix(ref, "_Ctype_struct_"))
		})
		for _, n := range f.Names {
			fields = append(fields, goField{n.Name, typ})
		}
	}
	return fields
}
