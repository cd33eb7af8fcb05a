// Command gen writes internal/abi's structs and ids from the kernel's uapi headers.
//
//	go run ./internal/abi/gen -fetch      # get the headers from Debian's linux-headers package
//	go run ./internal/abi/gen -o DIR      # write z*.go into DIR
//
// The layout is the one `go tool cgo -godefs` finds; DWARF of the same headers gives the C names it drops.
// Nothing of cgo is left in the result.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goverbs/goverbs/internal/abi/gen/headers"
)

func main() {
	fetch := flag.Bool("fetch", false, "download the headers if they are missing, write nothing")
	out := flag.String("o", ".", "directory to write to")
	input := flag.String("types", "gen/types.go.in", "C preamble")
	flag.Parse()
	if err := run(*fetch, *out, *input); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(fetch bool, out, input string) error {
	if fetch {
		dir, err := headers.Fetch()
		if err == nil {
			fmt.Println(dir)
		}
		return err
	}
	include, err := headers.Dir()
	if err != nil {
		return err
	}
	preamble, err := os.ReadFile(input)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "goverbs-gen")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	files, err := generate(tmp, include, string(preamble))
	if err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(out, "z*.go"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(out, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the files by name.
func generate(tmp, include, preamble string) (map[string][]byte, error) {
	c, err := scan(tmp, include, preamble)
	if err != nil {
		return nil, err
	}
	g, err := godefs(tmp, include, preamble, c)
	if err != nil {
		return nil, err
	}
	if err := name(c, g); err != nil {
		return nil, err
	}
	return emit(c, g)
}
