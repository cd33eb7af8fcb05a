//go:build linux

package main

import (
	"slices"
	"testing"
)

func TestParsePatches(t *testing.T) {
	all, err := parsePatches("# a/b: one: two\n-old\n- older\n+new\n\n# c: three\n-x\n+\n")
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	if p := all[0]; p.pkg != "a/b" || p.what != "one: two" || !slices.Equal(p.old, []string{"old", " older"}) || !slices.Equal(p.with, []string{"new"}) {
		t.Errorf("%+v", p)
	}
	if p := all[1]; p.pkg != "c" || !slices.Equal(p.old, []string{"x"}) || !slices.Equal(p.with, []string{""}) {
		t.Errorf("%+v", p)
	}
	for _, text := range []string{"-old\n", "# no package\n", "# a: b\nold\n"} {
		if _, err := parsePatches(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func TestPlaces(t *testing.T) {
	const text = "if a {\n\t\tb()\n\t}\n\tif a {\n\tc(); b()\n}\n"
	for _, c := range []struct {
		lines []string
		want  []string
	}{
		{[]string{"b()"}, []string{"b()", "b()"}},
		{[]string{"if a {", "b()"}, []string{"if a {\n\t\tb()"}},
		{[]string{"a {", "c()"}, []string{"a {\n\tc()"}},
		{[]string{"b()", "}"}, []string{"b()\n\t}", "b()\n}"}},
		{[]string{"if a", "b()"}, nil}, // a line between has to be whole
		{[]string{"b()", "}", "}"}, nil},
		{[]string{"d()"}, nil},
		{[]string{""}, nil},
		{nil, nil},
	} {
		var got []string
		for _, at := range places(text, c.lines) {
			got = append(got, text[at[0]:at[1]])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.lines, got, c.want)
		}
	}
}

// TestPatchesFit checks that each patch is of a package that is tested, and has its place there, also after things were
// renamed.
func TestPatchesFit(t *testing.T) {
	t.Chdir("../../..")
	patches, err := readPatches(patchDir)
	if err != nil || len(patches) == 0 {
		t.Fatal(len(patches), err)
	}
	for _, p := range patches {
		if !slices.Contains(packages, p.pkg) {
			t.Errorf("%s: %s: no such package", p.pkg, p.what)
		}
		if _, err := p.find(); err != nil {
			t.Error(err)
		}
	}
}
