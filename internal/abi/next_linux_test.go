package abi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
	for _, header := range []string{"ib_user_ioctl_cmds.h", "ib_user_ioctl_verbs.h", "rdma_netlink.h", "ib_user_verbs.h"} {
		for _, ids := range idsOf(t, filepath.Join(core.Dir, "kernel-headers/rdma", header)) {
			next := 0
			for _, id := range ids {
				id, value, _ := strings.Cut(id, " = ")
				if m := bit.FindStringSubmatch(value); m != nil {
					shift, err := strconv.Atoi(m[1])
					if err != nil {
						t.Fatal(err)
					}
					next = 1 << shift
				} else if same, ok := places[value]; ok {
					next = same
				}
				places[id] = next
				next++
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
			value, err := types.Eval(token.NewFileSet(), nil, 0, types.ExprString(spec.Values[0]))
			if err != nil {
				t.Fatal(err)
			}
			if place, ok := places[name]; !ok || value.Value.ExactString() != strconv.Itoa(place) {
				t.Errorf("%s is %v here, and %d (known: %t) there", name, value.Value, place, ok)
			}
			seen = append(seen, name)
		}
		return true
	})
	if !slices.Contains(seen, "IB_UVERBS_DEVICE_CC_DMA_BOUNCE") {
		t.Errorf("%q", seen)
	}
}

// bit matches the value of a flag.
var bit = regexp.MustCompile(`^1U?L* << (\d+)$`)
