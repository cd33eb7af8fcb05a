package house

import (
	"go/ast"
	"go/token"
	"path"
	"strings"
	"testing"
)

// TestNoAliases: each exported type is declared, and so documented, in the package that
// users name it by.
func TestNoAliases(t *testing.T) {
	types := 0
	for pkg, p := range public(t) {
		for _, d := range p.Types {
			for _, s := range d.Decl.Specs {
				if types++; s.(*ast.TypeSpec).Assign.IsValid() {
					t.Errorf("%s.%s is an alias", pkg, d.Name)
				}
			}
		}
	}
	if types < 200 {
		t.Errorf("%d types", types)
	}
}

// TestNoInternalTypes: exported functions, methods and fields have no type of an internal
// package, whose documentation users don't see.
func TestNoInternalTypes(t *testing.T) {
	internal := make(map[string]map[string]bool) // names of internal packages that a package imports
	for _, s := range sources(t) {
		for _, i := range s.imports {
			if strings.HasPrefix(i, module+"internal/") && !s.test() {
				if internal[s.pkg] == nil {
					internal[s.pkg] = make(map[string]bool)
				}
				internal[s.pkg][path.Base(i)] = true
			}
		}
	}
	functions := 0
	for pkg, p := range public(t) {
		check := func(name string, n ast.Node) {
			functions++
			ast.Inspect(n, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok && internal[pkg][x.Name] {
						t.Errorf("%s: %s has type %s.%s", pkg, name, x.Name, s.Sel.Name)
					}
				}
				return true
			})
		}
		for _, f := range p.Funcs {
			check(f.Name, f.Decl.Type)
		}
		for _, d := range p.Types {
			if d.Decl.Tok == token.TYPE {
				check(d.Name, d.Decl)
			}
			for _, f := range d.Funcs {
				check(f.Name, f.Decl.Type)
			}
			for _, f := range d.Methods {
				check(d.Name+"."+f.Name, f.Decl.Type)
			}
		}
	}
	if functions < 500 {
		t.Errorf("%d functions and types", functions)
	}
}
