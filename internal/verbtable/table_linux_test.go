package verbtable

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/test/rig"
)

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
