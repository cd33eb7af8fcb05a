// Package verbtable has tables of the kernel's methods and write commands, of libibverbs's
// functions and of the InfiniBand specification's verbs, with the Go call for each. It writes
// docs/verbs.md. Its tests fail if a kernel's headers have a method without a row.
package verbtable

import (
	_ "embed"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

//go:generate go run ./gen

// Method is a row of the kernel's side.
type Method struct {
	Name    string   // UVERBS_METHOD_QUERY_PORT
	Drivers string   // siw, rxe or both, if they have it
	Go      []string // the calls that issue it, for instance Device.QueryPort
	C       string
	Note    string
}

// Write reports whether it is a command of the older write(2) interface.
func (m *Method) Write() bool { return strings.HasPrefix(m.Name, "IB_USER_VERBS_") }

// Verb is a row of libibverbs's side, or of the specification's.
type Verb struct {
	Name string
	Go   []string
	C    string
	Note string
}

var (
	//go:embed methods.tsv
	methodRows string
	//go:embed clib.tsv
	functionRows string
	//go:embed later.tsv
	laterRows string
	//go:embed chapter11.tsv
	chapterRows string
)

// Methods returns all methods and commands for which Linux has or had a number.
func Methods() (all []Method) {
	for _, c := range cells(methodRows, 5) {
		all = append(all, Method{c[0], c[1], list(c[2]), c[3], c[4]})
	}
	return all
}

// Functions returns the functions of libibverbs that need a device.
func Functions() (all []Verb) {
	for _, c := range cells(functionRows, 3) {
		all = append(all, Verb{Name: c[0], Go: list(c[1]), Note: c[2]})
	}
	return all
}

// Later returns the features that are newer than Linux 7.3 or have no method, each with the decision about it.
func Later() (all []Verb) {
	for _, c := range cells(laterRows, 3) {
		all = append(all, Verb{Name: c[0], Go: list(c[1]), Note: c[2]})
	}
	return all
}

// Chapter11 returns the verbs of the specification, volume 1, chapter 11.
func Chapter11() (all []Verb) {
	for _, c := range cells(chapterRows, 4) {
		all = append(all, Verb{c[0], list(c[1]), c[2], c[3]})
	}
	return all
}

// cells splits a table into rows of n cells. Missing cells at the end of a row are empty.
func cells(rows string, n int) (all [][]string) {
	for line := range strings.Lines(rows) {
		c := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		all = append(all, append(c, make([]string, n)...)[:n])
	}
	return all
}

func list(cell string) []string {
	if cell == "" || cell == "-" {
		return nil
	}
	return strings.Split(cell, ", ")
}

// Mentioned returns the kernel's names that the files of a directory use, apart from tests.
func Mentioned(dir fs.FS) (map[string]bool, error) {
	names := make(map[string]bool)
	files, err := fs.Glob(dir, "*.go")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(dir, file)
		if err != nil {
			return nil, err
		}
		for _, m := range abiName.FindAllSubmatch(text, -1) {
			names[string(m[1])] = true
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no names of the kernel's in %d files", len(files))
	}
	return names, nil
}

var abiName = regexp.MustCompile(`\babi\.((?:UVERBS_METHOD|IB_USER_VERBS_CMD|IB_USER_VERBS_EX_CMD)_\w+)`)
