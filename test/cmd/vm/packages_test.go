//go:build linux

package main

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestClosure checks that results depend on the packages that tests use and what these need, directly, as an
// alternative or by another name, and on what every system has; not on others.
func TestClosure(t *testing.T) {
	all := map[string]debianPackage{}
	for _, p := range []debianPackage{
		{name: "rping", needs: packageNames("libc6:any (>= 2.36), mta | libverbs (= 1)")},
		{name: "libc6", needs: packageNames("libgcc, ")},
		{name: "libgcc", needs: packageNames("libc6")},
		{name: "libverbs-new"},
		{name: "coreutils", essential: true},
		{name: "opensm", needs: packageNames("libc6")},
	} {
		all[p.name] = p
	}
	all["libverbs"] = all["libverbs-new"]
	var names []string
	for _, p := range closure(all, []string{"rping", "not-installed"}) {
		names = append(names, p.name)
	}
	if want := []string{"coreutils", "libc6", "libgcc", "libverbs-new", "rping"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// TestHashInputs checks that programs and pages are inputs. Files that other rows write below bin are not.
func TestHashInputs(t *testing.T) {
	sum := func(changed string) string {
		root := fstest.MapFS{}
		for _, name := range []string{"bin/rdmalink", "bin/grpc/client", "bin/sandbox/rdmalink", "bin/suite", "bin/logs/x.log", "docs/concepts/page.md", "docs/performance.md", "internal/abi/z.go"} {
			root[name] = &fstest.MapFile{Data: []byte("text")}
		}
		if changed != "" {
			root[changed] = &fstest.MapFile{Data: []byte("other")}
		}
		h := sha256.New()
		if err := hashInputs(h, root); err != nil {
			t.Fatal(err)
		}
		return string(h.Sum(nil))
	}
	same := sum("")
	for _, name := range []string{"bin/rdmalink", "bin/grpc/client", "bin/new", "docs/concepts/page.md", "internal/abi/z.go"} {
		if sum(name) == same {
			t.Errorf("%s is no input", name)
		}
	}
	for _, name := range []string{"bin/sandbox/rdmalink", "bin/sandbox/new", "bin/suite", "bin/logs/x.log", "docs/performance.md"} {
		if sum(name) != same {
			t.Errorf("%s is an input", name)
		}
	}
}

// TestInputs checks that every file of the repository that a kernel test names is an input of the cache, and none is
// among those that other rows write.
func TestInputs(t *testing.T) {
	rooms, err := filepath.Glob("../../*/main_test.go")
	if err != nil || len(rooms) < 5 {
		t.Fatal(rooms, err)
	}
	dirs := []string{"../../kit"}
	for _, room := range rooms {
		dirs = append(dirs, filepath.Dir(room))
	}
	named := regexp.MustCompile(`\.\./\.\./([\w./-]+)`)
	found := 0
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range named.FindAllStringSubmatch(string(text), -1) {
				found++
				in := func(dir string) bool { return m[1] == dir || strings.HasPrefix(m[1], dir+"/") }
				if slices.ContainsFunc(otherRows, in) || !slices.ContainsFunc(inputDirs, in) {
					t.Errorf("%s reads %s, which is no input of the cache", path, m[1])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 20 {
		t.Errorf("found %d names of files", found)
	}
}
