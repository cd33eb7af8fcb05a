package abi

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi/gen/headers"
)

type cField struct{ goName, c string }

// cType has both names of a struct.
type cType struct {
	goName, c string
	fields    []cField
}

// crossCompilers has gcc for each supported architecture.
var crossCompilers = map[string]string{"amd64": "x86_64-linux-gnu-gcc", "arm64": "aarch64-linux-gnu-gcc"}

// TestLayout compares every struct, field and constant of Go's compiler with those of a C compiler.
func TestLayout(t *testing.T) {
	for arch := range crossCompilers {
		t.Run(arch, func(t *testing.T) {
			compile := newCompiler(t, arch)
			sizes := types.SizesFor("gc", arch)
			pkg := check(t, sizes, generated(t)...)
			asserts, err := structAsserts(pkg, sizes, cTypes)
			if err != nil {
				t.Fatal(err)
			}
			if err := compile(asserts + constAsserts(pkg)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLayoutCanFail checks that wrong structs and constants fail TestLayout.
func TestLayoutCanFail(t *testing.T) {
	table := []cType{{"IbUverbsGlobalRoute", "struct ib_uverbs_global_route",
		[]cField{{"FlowLabel", "flow_label"}, {"HopLimit", "hop_limit"}}}}
	wrong := map[string]string{
		"size":     "type IbUverbsGlobalRoute struct { _ [16]byte; FlowLabel uint32; _ [1]byte; HopLimit uint8; _ [6]byte }",
		"offset":   "type IbUverbsGlobalRoute struct { _ [16]byte; FlowLabel uint32; HopLimit uint8; _ [3]byte }",
		"width":    "type IbUverbsGlobalRoute struct { _ [16]byte; FlowLabel uint16; _ [3]byte; HopLimit uint8; _ [2]byte }",
		"constant": "const IB_WC_GENERAL_ERR = 20",
	}
	right := "type IbUverbsGlobalRoute struct { _ [16]byte; FlowLabel uint32; _ [1]byte; HopLimit uint8; _ [2]byte }"
	for arch := range crossCompilers {
		compile := newCompiler(t, arch)
		ask := func(src string) error {
			sizes := types.SizesFor("gc", arch)
			pkg := check(t, sizes, src)
			var asserts string
			if !strings.HasPrefix(src, "const") {
				var err error
				if asserts, err = structAsserts(pkg, sizes, table); err != nil {
					t.Fatal(err)
				}
			}
			return compile(asserts + constAsserts(pkg))
		}
		if err := ask(right); err != nil {
			t.Errorf("%s: right struct refused: %v", arch, err)
		}
		for name, src := range wrong {
			if err := ask(src); err == nil || !strings.Contains(err.Error(), "static assertion failed") {
				t.Errorf("%s: wrong %s: got %v, want a failed assertion", arch, name, err)
			}
		}
	}
}

// TestTableCanFail checks that a struct or field that is not in the table is an error before C is compiled.
func TestTableCanFail(t *testing.T) {
	table := []cType{{"A", "struct a", []cField{{"X", "x"}}}}
	for _, src := range []string{
		"type A struct { X, Y uint32 }", "type A struct { Y uint32 }", "type A struct { _ uint32 }",
		"type A struct { X uint32 }; type B struct { X uint32 }", "type B struct { X uint32 }",
	} {
		sizes := types.SizesFor("gc", "amd64")
		if _, err := structAsserts(check(t, sizes, src), sizes, table); err == nil {
			t.Errorf("%s: accepted", src)
		}
	}
}

// missing skips the test on a developer's machine and fails it in CI.
func missing(t *testing.T, what any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal("in CI, and missing: ", what)
	}
	t.Skip(what)
}

// newCompiler returns a function that compiles C assertions with the headers.
func newCompiler(t *testing.T, arch string) func(asserts string) error {
	t.Helper()
	include, err := headers.Dir()
	if err != nil {
		missing(t, err)
	}
	gcc := crossCompilers[arch]
	if arch == runtime.GOARCH {
		gcc = "gcc"
	}
	if _, err := exec.LookPath(gcc); err != nil {
		missing(t, fmt.Sprintf("%v: install gcc or gcc-aarch64-linux-gnu and libc6-dev-arm64-cross", err))
	}
	preamble, err := os.ReadFile("gen/types.go.in")
	if err != nil {
		t.Fatal(err)
	}
	return func(asserts string) error {
		cmd := exec.Command(gcc, append(headers.Flags(include), "-fsyntax-only", "-x", "c", "-")...)
		cmd.Stdin = strings.NewReader("#include <stddef.h>\n" + headers.CText(string(preamble)) + asserts)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", gcc, err, out)
		}
		return nil
	}
}

// generated returns the generated sources.
func generated(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("z*_h.go")
	if err != nil || len(names) == 0 {
		t.Fatal("no generated files: ", err)
	}
	var srcs []string
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		srcs = append(srcs, string(src))
	}
	return srcs
}

// check type-checks sources for an architecture, and adds missing package clauses.
func check(t *testing.T, sizes types.Sizes, srcs ...string) *types.Package {
	t.Helper()
	if build.Default.GOROOT == "" { // a test built with -trimpath knows none
		root, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			t.Fatal(err)
		}
		build.Default.GOROOT = strings.TrimSpace(string(root))
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, src := range srcs {
		if !strings.Contains(src, "package abi") {
			src = "package abi\n" + src
		}
		f, err := parser.ParseFile(fset, "", src, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	conf := types.Config{Importer: importer.ForCompiler(fset, "source", nil), Sizes: sizes}
	pkg, err := conf.Check("abi", fset, files, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pkg
}

// structAsserts turns Go's layout of every struct in pkg into C assertions. The table must have exactly these structs.
func structAsserts(pkg *types.Package, sizes types.Sizes, table []cType) (string, error) {
	var b bytes.Buffer
	known := map[string]bool{}
	for _, c := range table {
		known[c.goName] = true
		obj := pkg.Scope().Lookup(c.goName)
		if obj == nil {
			return "", fmt.Errorf("%s is in the table only", c.goName)
		}
		s := obj.Type().Underlying().(*types.Struct)
		fmt.Fprintf(&b, "_Static_assert(sizeof(%s) == %d, \"%s\");\n", c.c, sizes.Sizeof(s), c.goName)
		if err := fieldAsserts(&b, s, sizes, c); err != nil {
			return "", err
		}
	}
	for _, name := range pkg.Scope().Names() {
		if _, ok := pkg.Scope().Lookup(name).(*types.TypeName); ok && !known[name] {
			return "", fmt.Errorf("%s is not in the table", name)
		}
	}
	return b.String(), nil
}

func fieldAsserts(b *bytes.Buffer, s *types.Struct, sizes types.Sizes, c cType) error {
	var fields []*types.Var
	for f := range s.Fields() {
		fields = append(fields, f)
	}
	offsets := sizes.Offsetsof(fields)
	left := c.fields
	for i, f := range fields {
		if f.Name() == "_" {
			continue
		}
		if len(left) == 0 || left[0].goName != f.Name() {
			return fmt.Errorf("%s.%s is not in the table, or not here", c.goName, f.Name())
		}
		fmt.Fprintf(b, "_Static_assert(offsetof(%s, %s) == %d, \"offset of %s.%s\");\n", c.c, left[0].c, offsets[i], c.goName, f.Name())
		fmt.Fprintf(b, "_Static_assert(sizeof(((%s *)0)->%s) == %d, \"size of %s.%s\");\n", c.c, left[0].c, sizes.Sizeof(f.Type()), c.goName, f.Name())
		left = left[1:]
	}
	if len(left) > 0 {
		return errors.New(c.goName + " lacks " + left[0].goName)
	}
	return nil
}

// constAsserts turns every constant of pkg into a C assertion.
func constAsserts(pkg *types.Package) string {
	var b bytes.Buffer
	for _, name := range pkg.Scope().Names() {
		if c, ok := pkg.Scope().Lookup(name).(*types.Const); ok {
			v, _ := constant.Int64Val(c.Val())
			fmt.Fprintf(&b, "_Static_assert((long long)(%s) == %dLL, \"%s\");\n", name, v, name)
		}
	}
	return b.String()
}
