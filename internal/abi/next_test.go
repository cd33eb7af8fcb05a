package abi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/goverbs/goverbs/test/rig"
)

// TestNextIDs compares the ids in next.go with those in the kernel headers of the newest rdma-core: an
// id is its place in its enum.
func TestNextIDs(t *testing.T) {
	core, err := rig.NewestRDMACore()
	if err != nil {
		missing(t, err)
	}
	places := make(map[string]int)
	for _, header := range []string{"ib_user_ioctl_cmds.h", "ib_user_ioctl_verbs.h"} {
		for _, ids := range idsOf(t, filepath.Join(core.Dir, "kernel-headers/rdma", header)) {
			for i, id := range ids {
				places[id] = i
			}
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), "next.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			name := spec.Names[0].Name
			value, err := strconv.ParseUint(spec.Values[0].(*ast.BasicLit).Value, 0, 16)
			if place, ok := places[name]; !ok || err != nil || int(value) != place {
				t.Errorf("%s is %d here, and %d (known: %t) there", name, value, place, ok)
			}
			seen = append(seen, name)
		}
		return true
	})
	if len(seen) < 20 || !slices.Contains(seen, "UVERBS_OBJECT_COMP_CNTR") {
		t.Errorf("%q", seen)
	}
}
