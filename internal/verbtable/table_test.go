package verbtable

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi/gen/headers"
	"github.com/goverbs/goverbs/test/rig"
	"github.com/goverbs/goverbs/uverbs"
)

const top = "../.."

func TestPageIsCurrent(t *testing.T) {
	want, err := Page(os.DirFS(top))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(top, "docs/verbs.md"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("run `go generate ./internal/verbtable` (-generated +committed):\n%s", diff)
	}
}

var (
	method  = regexp.MustCompile(`\b(?:UVERBS_METHOD|IB_USER_VERBS_CMD|IB_USER_VERBS_EX_CMD)_\w+\b`)
	noVerbs = map[string]bool{"IB_USER_VERBS_CMD_COMMAND_MASK": true, "IB_USER_VERBS_CMD_FLAG_EXTENDED": true, "IB_USER_VERBS_CMD_THRESHOLD": true}
)

// wantRows reports the names in a text that have no row.
func wantRows(t *testing.T, from, text string) {
	t.Helper()
	rows, names := make(map[string]bool), make(map[string]bool)
	for _, m := range Methods() {
		rows[m.Name] = true
	}
	for _, name := range method.FindAllString(text, -1) {
		names[name] = !noVerbs[name]
	}
	for name, verb := range names {
		if verb && !rows[name] {
			t.Errorf("%s has %s, and methods.tsv has no row for it", from, name)
		}
	}
	if len(names) < 35 {
		t.Errorf("%s has %d names", from, len(names))
	}
}

// TestRowsOfABI checks that every method and command in internal/abi has a row. It needs no
// headers.
func TestRowsOfABI(t *testing.T) {
	text := ""
	for _, file := range []string{"zib_user_ioctl_cmds_h.go", "zib_user_verbs_h.go", "next.go"} {
		b, err := os.ReadFile(filepath.Join(top, "internal/abi", file))
		if err != nil {
			t.Fatal(err)
		}
		text += string(b)
	}
	wantRows(t, "internal/abi", text)
}

// TestRowsOfHeaders checks that every method and command in a kernel's headers has a row.
func TestRowsOfHeaders(t *testing.T) {
	old, err := headers.Dir()
	if err != nil {
		missing(t, err)
	}
	newest := headers.VerbsDir(old)
	for series, dir := range map[string]string{headers.Series: filepath.Join(old, "rdma"), headers.Newest: newest} {
		for _, file := range []string{"ib_user_ioctl_cmds.h", "ib_user_verbs.h"} {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				missing(t, fmt.Errorf("%w: run `go run ./test/cmd/vm headers`", err))
			}
			wantRows(t, file+" of Linux "+series, string(text))
		}
	}
}

// TestRowsOfNextHeaders checks the same for the headers of the newest rdma-core, and that each
// function in its verbs.h has a row, and each row a function.
func TestRowsOfNextHeaders(t *testing.T) {
	core, err := rig.NewestRDMACore()
	if err != nil {
		missing(t, err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(core.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, file := range []string{"ib_user_ioctl_cmds.h", "ib_user_verbs.h"} {
		wantRows(t, file+" of rdma-core "+core.Version, read("kernel-headers/rdma/"+file))
	}
	kernel := ""
	for _, file := range []string{"ib_user_ioctl_cmds.h", "ib_user_ioctl_verbs.h", "ib_user_verbs.h", "rdma_netlink.h"} {
		kernel += read("kernel-headers/rdma/" + file)
	}
	kernel += read("libibverbs/kern-abi.h")
	for _, l := range Later() {
		for _, name := range list(l.Name) {
			if !strings.Contains(name, " ") && !strings.Contains(strings.ToUpper(kernel), strings.ToUpper(strings.TrimPrefix(name, "IB_"))) {
				t.Errorf("no header has %s", name)
			}
		}
	}
	rows := make(map[string]bool) // whether verbs.h has the function
	var families []string
	for _, f := range Functions() {
		for _, name := range list(f.Name) {
			if family, ok := strings.CutSuffix(name, "…"); ok {
				families = append(families, family)
				continue
			}
			rows[name] = false
		}
	}
	for _, m := range function.FindAllStringSubmatch(read("libibverbs/verbs.h"), -1) {
		if _, ok := rows[m[1]]; ok {
			rows[m[1]] = true
		} else if !slices.ContainsFunc(families, func(f string) bool { return strings.HasPrefix(m[1], f) }) {
			t.Errorf("clib.tsv has no row for %s of verbs.h", m[1])
		}
	}
	for name, found := range rows {
		if !found {
			t.Errorf("verbs.h has no %s", name)
		}
	}
}

// function matches the functions of a header, but no call through a pointer and no return type.
var function = regexp.MustCompile(`\b(ibv_\w+|\w+_to_ibv_rate)\s*\([^*]`)

func missing(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// TestCallsAreThere checks that the calls in rows are declared, that a method has a call if and
// only if package uverbs issues it, and that a row without a call has a reason.
func TestCallsAreThere(t *testing.T) {
	issued, err := Mentioned(os.DirFS(filepath.Join(top, "uverbs")))
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, dir := range []string{"uverbs", "verbs", "netlinkrdma"} {
		declarations(t, filepath.Join(top, dir), known)
	}
	check := func(row string, calls []string, note string) {
		for _, call := range calls {
			if !known[call] {
				t.Errorf("%s: there is no %s", row, call)
			}
		}
		if len(calls) == 0 && note == "" {
			t.Errorf("%s has neither a call nor a reason", row)
		}
	}
	for _, m := range Methods() {
		check(m.Name, m.Go, m.Note)
		if issued[m.Name] != (len(m.Go) > 0) {
			t.Errorf("%s: it is issued: %t, and its calls are %q", m.Name, issued[m.Name], m.Go)
		}
	}
	for _, v := range slices.Concat(Functions(), Later(), Chapter11()) {
		check(v.Name, v.Go, v.Note)
	}
}

// anywhere has the calls that need no probe, because a device that can be found and opened has them.
var anywhere = map[string]bool{"DeviceInfo.Open": true, "Device.CompVectors": true}

// TestCallsAreProbed checks that Device.Probe answers for each call that a method or command has,
// that its verbs are declared, and that no name in creators and alias is left over.
func TestCallsAreProbed(t *testing.T) {
	known := make(map[string]bool)
	for _, dir := range []string{"uverbs", "verbs"} {
		declarations(t, filepath.Join(top, dir), known)
	}
	for _, m := range Methods() {
		for _, call := range m.Go {
			if (answerer(call) == "") != anywhere[call] {
				t.Errorf("%s: probed as %q", call, answerer(call))
			}
		}
	}
	for _, v := range uverbs.Verbs() {
		name, _, _ := strings.Cut(string(v), " ")
		if name == "Device.ImportFile" { // it is a function, and the verb needs a device
			name = "ImportFile"
		}
		if !known[name] {
			t.Errorf("there is no %s", name)
		}
	}
	for _, answers := range []map[string]string{creators, alias} {
		for of, verb := range answers {
			if answerer(verb) != verb || !known[of] {
				t.Errorf("%s answers for %s", verb, of)
			}
		}
	}
}

// declarations adds the exported names of a package: Open, Device, Device.Close,
// DeviceInfo.Name.
func declarations(t *testing.T, dir string, known map[string]bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			declare(d, known)
		}
	}
}

func declare(d ast.Decl, known map[string]bool) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = receiver(d.Recv.List[0].Type) + "." + name
		}
		known[name] = true
	case *ast.GenDecl:
		for _, s := range d.Specs {
			ts, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			known[ts.Name.Name] = true
			if st, ok := ts.Type.(*ast.StructType); ok {
				for _, field := range st.Fields.List {
					for _, n := range field.Names {
						known[ts.Name.Name+"."+n.Name] = true
					}
				}
			}
		}
	}
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// TestFunctionsOfC checks that each function of libibverbs in a "C:" line of package uverbs has
// a row.
func TestFunctionsOfC(t *testing.T) {
	rows := make(map[string]bool)
	for _, f := range Functions() {
		for _, name := range list(f.Name) {
			rows[name] = true
		}
	}
	files, err := filepath.Glob(filepath.Join(top, "uverbs/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range twin.FindAllStringSubmatch(string(text), -1) {
			found++
			if !rows[m[1]] {
				t.Errorf("%s: clib.tsv has no row for %s", file, m[1])
			}
		}
	}
	if found < 40 {
		t.Errorf("%d comments", found)
	}
}

var twin = regexp.MustCompile(`(?m)^// C: (ibv_[a-z_]+)`)
