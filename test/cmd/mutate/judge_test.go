//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

// tree is a module with a package, its test, and a package that uses it.
var tree = map[string]string{
	"go.mod":              "module example.org/m\n\ngo 1.25\n",
	"low/low.go":          "package low\n\nfunc F() int { return 1 }\n\nfunc G() int { return 2 }\n\nfunc H() int { return 3 }\n",
	"low/low_test.go":     "package low\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) {\n\tif F() != 1 {\n\t\tt.Error()\n\t}\n}\n",
	"high/high.go":        "package high\n\nimport \"example.org/m/low\"\n\nvar G = low.G()\n",
	"high/high_test.go":   "package high\n\nimport \"testing\"\n\nfunc TestG(t *testing.T) {\n\tif G != 2 {\n\t\tt.Error()\n\t}\n}\n",
	patchDir + "/low.txt": "# low: F is another number\n-return 1\n+return 7\n# low: G is another number\n-return 2\n+return 7\n# low: H is another number\n-return 3\n+return 7\n# low: not Go\n-return 3\n+return }\n",
}

func newTree(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range tree {
		dir := name[:max(strings.LastIndexByte(name, '/'), 0)]
		if err := errors.Join(os.MkdirAll("./"+dir, 0o777), os.WriteFile(name, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
}

// The tests of the package and of those that use it are asked, and the tree stays as it
// is.
func TestMutate(t *testing.T) {
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{nil, `noticed   low: F is another number
noticed   low: G is another number
lived     low: H is another number
does not compile  low: not Go

2 of 3 noticed (66 %)
lived: low: H is another number
`},
		{[]string{"-own", "-run", "F is|G is"}, `noticed   low: F is another number
lived     low: G is another number

1 of 2 noticed (50 %)
lived: low: G is another number
`},
	} {
		newTree(t)
		var stdout, stderr bytes.Buffer
		code := mutate(t.Context(), append(c.flags, "low"), &stdout, &stderr)
		if stdout.String() != c.want || code != 1 || stderr.Len() > 0 {
			t.Errorf("code %d, %s\n%s", code, &stderr, &stdout)
		}
		for name, text := range tree {
			if now, err := os.ReadFile(name); err != nil || string(now) != text {
				t.Errorf("%s is %q now, %v", name, now, err)
			}
		}
	}
}

func TestMutateEnough(t *testing.T) {
	newTree(t)
	var stdout, stderr bytes.Buffer
	if code := mutate(t.Context(), []string{"-run", "F is", "low"}, &stdout, &stderr); code != 0 {
		t.Errorf("code %d, %s\n%s", code, &stderr, &stdout)
	}
}

func TestMutateFails(t *testing.T) {
	newTree(t)
	for flag, c := range map[string]struct {
		code int
		text string
	}{"-x": {2, "not defined"}, "-run=(": {2, "missing closing"}, "-h": {0, "usage"}, "-own": {1, "canceled"}} {
		var stdout, stderr bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if code := mutate(ctx, []string{flag, "low"}, &stdout, &stderr); code != c.code || !strings.Contains(stderr.String(), c.text) {
			t.Errorf("%s: code %d, %s", flag, code, &stderr)
		}
	}
	if err := os.WriteFile(patchDir+"/low.txt", []byte("# low: lost\n-return 9\n+return 7\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := mutate(t.Context(), []string{"low"}, &stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), "stands at 0 places") {
		t.Errorf("code %d, %s", code, &stderr)
	}
	t.Chdir("low")
	if code := mutate(t.Context(), nil, &stdout, &stderr); code != 2 {
		t.Errorf("below the top: code %d", code)
	}
}
