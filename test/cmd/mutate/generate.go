//go:build linux

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// operators maps an operator to its replacements in generated mutants.
var operators = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
	token.AND: token.OR, token.OR: token.AND, token.SHL: token.SHR, token.SHR: token.SHL,
}

// generate makes the usual mutants of a file: other operators, conditions negated,
// statements dropped, numbers off by one, errors swallowed.
func generate(pkg, file string, text []byte) ([]mutant, error) {
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(syntax) {
		return nil, err
	}
	g := &generator{pkg: pkg, file: file, text: text, fset: fset}
	for _, d := range syntax.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			ast.Inspect(f.Body, g.node)
		}
	}
	return g.all, nil
}

type generator struct {
	pkg, file string
	text      []byte
	fset      *token.FileSet
	all       []mutant
}

func (g *generator) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if op, ok := operators[n.Op]; ok && !isString(n.X) && !isString(n.Y) {
			g.add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), op.String())
		}
	case *ast.IfStmt:
		g.add(n.Cond.Pos(), n.Cond.End(), "!("+g.source(n.Cond)+")")
	case *ast.BasicLit:
		if i, err := strconv.ParseInt(n.Value, 0, 32); n.Kind == token.INT && err == nil {
			g.add(n.Pos(), n.End(), strconv.FormatInt(i+1, 10))
		}
	case *ast.ReturnStmt:
		g.swallow(n)
	case *ast.BlockStmt:
		g.drop(n.List)
	case *ast.CaseClause:
		g.drop(n.Body)
	case *ast.CommClause:
		g.drop(n.Body)
	}
	return true
}

func isString(e ast.Expr) bool {
	l, ok := e.(*ast.BasicLit)
	return ok && l.Kind == token.STRING
}

// swallow returns no error instead of err.
func (g *generator) swallow(r *ast.ReturnStmt) {
	if len(r.Results) == 0 {
		return
	}
	last := r.Results[len(r.Results)-1]
	if id, ok := last.(*ast.Ident); ok && id.Name == "err" {
		g.add(last.Pos(), last.End(), "nil")
	}
}

// drop leaves out statements that others can compile without.
func (g *generator) drop(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.SendStmt, *ast.GoStmt:
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE || len(s.Lhs) == 1 && g.source(s.Lhs[0]) == "_" {
				continue
			}
		default:
			continue
		}
		g.add(s.Pos(), s.End(), "")
	}
}

func (g *generator) offset(p token.Pos) int { return g.fset.Position(p).Offset }

func (g *generator) source(n ast.Node) string {
	return string(g.text[g.offset(n.Pos()):g.offset(n.End())])
}

func (g *generator) add(from, to token.Pos, with string) {
	start, end := g.offset(from), g.offset(to)
	line := strings.TrimSpace(g.lineOf(start))
	what := fmt.Sprintf("%s:%d: %q → %q in %s", g.file, g.fset.Position(from).Line, g.text[start:end], with, line)
	g.all = append(g.all, mutant{g.pkg, g.file, g.text, start, end, with, what})
}

func (g *generator) lineOf(at int) string {
	from := strings.LastIndexByte(string(g.text[:at]), '\n') + 1
	line, _, _ := strings.Cut(string(g.text[from:]), "\n")
	return line
}
