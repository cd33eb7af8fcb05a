package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
)

// enum is one of C's, in its order.
type enum struct {
	name   string // without a name: empty
	consts []constant
}

type constant struct {
	name  string
	value uint64
}

// files holds the files that define names.
var files = []string{"zib_user_ioctl_cmds_h.go", "zib_user_verbs_h.go", "zrdma_user_cm_h.go"}

func scan(abi string) (all []enum, err error) {
	for _, file := range files {
		syntax, err := parser.ParseFile(token.NewFileSet(), filepath.Join(abi, file), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range syntax.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				all = append(all, enumOf(g))
			}
		}
	}
	return all, nil
}

func enumOf(g *ast.GenDecl) (e enum) {
	e.name, _ = strings.CutPrefix(strings.TrimSpace(g.Doc.Text()), "enum ")
	for _, s := range g.Specs {
		spec := s.(*ast.ValueSpec)
		for i, value := range spec.Values {
			if literal, ok := value.(*ast.BasicLit); ok {
				if n, err := strconv.ParseUint(literal.Value, 0, 64); err == nil {
					e.consts = append(e.consts, constant{spec.Names[i].Name, n})
				}
			}
		}
	}
	return e
}
