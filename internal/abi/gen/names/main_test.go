package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestCurrent checks that the names are those of internal/abi.
func TestCurrent(t *testing.T) {
	want, err := tables("../..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../nametables.go")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("run go generate ./internal/abi: %v", err)
	}
}

// TestWhole checks that each object, method, attribute and command of internal/abi has
// a name.
func TestWhole(t *testing.T) {
	enums, err := scan("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../nametables.go")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range enums {
		for _, c := range e.consts {
			for _, prefix := range []string{"UVERBS_OBJECT_", "UVERBS_METHOD_", "UVERBS_ATTR_", "IB_USER_VERBS_CMD_", "IB_USER_VERBS_EX_CMD_", "RDMA_USER_CM_CMD_"} {
				name, ok := strings.CutPrefix(c.name, prefix)
				if !ok || notNames[c.name] || strings.HasPrefix(c.name, "UVERBS_ATTR_UHW_") || prefix == "UVERBS_ATTR_" && !strings.HasPrefix(e.name, "uverbs_attrs_") {
					continue
				}
				if n++; !bytes.Contains(text, []byte(`"`+name+`"`)) {
					t.Errorf("no %s", c.name)
				}
			}
		}
	}
	if n < 200 {
		t.Errorf("%d names", n)
	}
}
