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

// marker is in the documentation of each package, type, function and method that may change in any release.
const marker = "Experimental: may change in any release; see docs/stability.md."

// experimental returns what apiFile says of a name with this documentation.
func experimental(text string) string {
	if strings.Contains(strings.Join(strings.Fields(text), " "), marker) {
		return " // experimental"
	}
	return ""
}

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
		t.Errorf("the exported surface changed: if that is meant, run make api (-recorded +now):\n%s", diff)
	}
}

// TestAPISeesChanges checks that a field, a method and a signature are part of the surface.
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
		if e := experimental(p.Doc); e != "" {
			surface = append(surface, pkg+":"+e)
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
			lines = append(lines, word+recv+f.Name+strings.TrimPrefix(oneLine(f.Decl.Type), "func")+experimental(f.Doc))
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
				lines = append(lines, apiOfType(spec, experimental(t.Doc))...)
			}
		}
	}
	return lines
}

// apiOfType returns the lines of a type. The first of them ends in note.
func apiOfType(spec *ast.TypeSpec, note string) (lines []string) {
	eq := " "
	if spec.Assign.IsValid() {
		eq = " = "
	}
	head := "type " + spec.Name.Name + eq
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		lines = append(lines, head+"struct"+note)
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
		lines = append(lines, head+"interface"+note)
		for _, m := range typ.Methods.List {
			if len(m.Names) == 0 {
				lines = append(lines, "interface "+spec.Name.Name+" embeds "+oneLine(m.Type))
			}
			for _, name := range m.Names {
				lines = append(lines, "interface "+spec.Name.Name+"."+name.Name+strings.TrimPrefix(oneLine(m.Type), "func"))
			}
		}
	default:
		lines = append(lines, head+oneLine(spec.Type)+note)
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

// TestHandlesPrint checks that a type that users close, or of whose fields none is exported, has a method that prints it
// as a line. Without one, fmt would print what the object holds: queues, keys and messages, perhaps after they were
// unmapped, and maps that another goroutine changes.
func TestHandlesPrint(t *testing.T) {
	handles := 0
	for path, p := range publicPackages(t) {
		for _, d := range p.Types {
			has := func(name string) bool {
				return slices.ContainsFunc(d.Methods, func(f *doc.Func) bool { return f.Name == name })
			}
			if !has("Close") && (!isOpaque(d) || path == "mmap") { // fmt prints pointers of mmap's rings as addresses
				continue
			}
			if _, isStruct := d.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType); !isStruct {
				continue
			}
			if handles++; !has("Format") && !has("String") {
				t.Errorf("%s.%s has neither Format nor String", path, d.Name)
			}
		}
	}
	if handles < 60 {
		t.Errorf("%d handles", handles)
	}
}

// isOpaque reports whether a type is a structure that has methods of its pointer, and no exported field.
func isOpaque(d *doc.Type) bool {
	typ, ok := d.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType)
	return ok && slices.ContainsFunc(d.Methods, func(f *doc.Func) bool { return strings.HasPrefix(f.Recv, "*") }) &&
		!slices.ContainsFunc(typ.Fields.List, func(f *ast.Field) bool { return len(f.Names) == 0 || f.Names[0].IsExported() })
}
