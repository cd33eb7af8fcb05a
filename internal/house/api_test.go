package house

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// apiFile has the exported surface of the public packages, on linux/amd64, one name a line.
const apiFile = "api.txt"

var writeAPI = flag.Bool("api", false, "record the exported surface")

// TestAPI compares the exported surface with the recorded one. make api writes it.
func TestAPI(t *testing.T) {
	surface, counts := apiOf(t)
	for _, c := range counts {
		t.Log(c)
	}
	text := strings.Join(surface, "\n") + "\n"
	if *writeAPI {
		if err := os.WriteFile(apiFile, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	old, err := os.ReadFile(apiFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(old), "\n"), strings.Split(text, "\n")); diff != "" {
		t.Errorf("the exported surface changed: if that is meant, run make api and add a line to CHANGELOG.md (-recorded +now):\n%s", diff)
	}
}

// TestAPISeesChanges: a field, a method and a signature are part of the surface.
func TestAPISeesChanges(t *testing.T) {
	surface, _ := apiOf(t)
	for _, want := range []string{
		"rdmacm: type Config struct", "rdmacm: field Config.Prepare func(*Conn) error", "uverbs: method (*QP) PostSend(",
		"rsocket: func Listen(",
	} {
		if !slices.ContainsFunc(surface, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Errorf("no line begins %q", want)
		}
	}
}

// publicPackages returns the documentation of the public packages, on linux/amd64, by their paths in this module.
func publicPackages(t *testing.T) map[string]*doc.Package {
	t.Helper()
	fset, files, packages := token.NewFileSet(), make(map[string][]*ast.File), make(map[string]*doc.Package)
	for _, s := range sources(t) {
		first, _, _ := strings.Cut(s.pkg, "/")
		if s.test() || strings.Contains("/"+s.pkg+"/", "/internal/") || slices.Contains([]string{"cmd", "test", "examples", "docs", "."}, first) {
			continue
		}
		ctxt := build.Default
		ctxt.GOOS, ctxt.GOARCH = "linux", "amd64"
		if ok, err := ctxt.MatchFile(filepath.Join(top, s.pkg), filepath.Base(s.path)); err != nil || !ok {
			continue
		}
		syntax, err := parser.ParseFile(fset, s.path, s.text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files[s.pkg] = append(files[s.pkg], syntax)
	}
	for pkg, syntax := range files {
		p, err := doc.NewFromFiles(fset, syntax, module+pkg)
		if err != nil {
			t.Fatal(err)
		}
		packages[pkg] = p
	}
	return packages
}

// apiOf returns the surface, sorted, and the number of exported names a package.
func apiOf(t *testing.T) (surface, counts []string) {
	t.Helper()
	for pkg, p := range publicPackages(t) {
		lines := apiOfPackage(p)
		types := 0
		for _, l := range lines {
			if strings.HasPrefix(l, "type ") {
				types++
			}
			surface = append(surface, pkg+": "+l)
		}
		counts = append(counts, fmt.Sprintf("%s: %d types, %d names", pkg, types, len(lines)))
	}
	slices.Sort(surface)
	slices.Sort(counts)
	return surface, counts
}

func apiOfPackage(p *doc.Package) (lines []string) {
	values := func(all []*doc.Value) {
		for _, v := range all {
			for _, name := range v.Names {
				if ast.IsExported(name) {
					lines = append(lines, v.Decl.Tok.String()+" "+name)
				}
			}
		}
	}
	funcs := func(all []*doc.Func) {
		for _, f := range all {
			recv := ""
			word := "func "
			if f.Recv != "" {
				word, recv = "method ", "("+f.Recv+") "
			}
			lines = append(lines, word+recv+f.Name+strings.TrimPrefix(oneLine(f.Decl.Type), "func"))
		}
	}
	values(p.Consts)
	values(p.Vars)
	funcs(p.Funcs)
	for _, t := range p.Types {
		values(t.Consts)
		values(t.Vars)
		funcs(t.Funcs)
		funcs(t.Methods)
		for _, s := range t.Decl.Specs {
			if spec := s.(*ast.TypeSpec); spec.Name.Name == t.Name {
				lines = append(lines, apiOfType(spec)...)
			}
		}
	}
	return lines
}

func apiOfType(spec *ast.TypeSpec) (lines []string) {
	eq := " "
	if spec.Assign.IsValid() {
		eq = " = "
	}
	head := "type " + spec.Name.Name + eq
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		lines = append(lines, head+"struct")
		for _, f := range typ.Fields.List {
			if len(f.Names) == 0 {
				lines = append(lines, "field "+spec.Name.Name+" embeds "+oneLine(f.Type))
			}
			for _, name := range f.Names {
				if name.IsExported() {
					lines = append(lines, "field "+spec.Name.Name+"."+name.Name+" "+oneLine(f.Type))
				}
			}
		}
	case *ast.InterfaceType:
		lines = append(lines, head+"interface")
		for _, m := range typ.Methods.List {
			if len(m.Names) == 0 {
				lines = append(lines, "interface "+spec.Name.Name+" embeds "+oneLine(m.Type))
			}
			for _, name := range m.Names {
				lines = append(lines, "interface "+spec.Name.Name+"."+name.Name+strings.TrimPrefix(oneLine(m.Type), "func"))
			}
		}
	default:
		lines = append(lines, head+oneLine(spec.Type))
	}
	return lines
}

// oneLine is a piece of syntax on one line.
func oneLine(n ast.Node) string {
	var b bytes.Buffer
	if err := format.Node(&b, token.NewFileSet(), n); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
