package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
)

// TestManIsCurrent: the page in docs is of these tables.
func TestManIsCurrent(t *testing.T) {
	tool, _ := resourceMachine()
	got := tool.runLine("man", &hosttest.Netdevs{})
	text, err := os.ReadFile("../../docs/rdmalink.8")
	if diff := cmp.Diff(string(text), got.Out); err != nil || diff != "" || got.Code != 0 {
		t.Errorf("run go generate ./cmd/rdmalink: %v (-docs +tables):\n%s", err, diff)
	}
}

// TestManTellsOfAll: each command that does something, and each option.
func TestManTellsOfAll(t *testing.T) {
	page := manPage()
	for path := range allCommands(root()) {
		c := path[len(path)-1]
		if c.run != nil && c.name() != "help" && !strings.Contains(page, `.SS "`+roffText(commandLine(path))) {
			t.Errorf("nothing about %s", commandLine(path))
		}
		for _, o := range c.options {
			if !strings.Contains(page, roffText(o.long)) {
				t.Errorf("nothing about %s of %s", o.long, commandLine(path))
			}
		}
	}
}

// TestReadmeTellsOfAll: the table of commands in the README has each, in a word.
func TestReadmeTellsOfAll(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	_, section, _ := strings.Cut(string(page), "\n## Tools\n")
	section, _, found := strings.Cut(section, "\n## ")
	if err != nil || !found {
		t.Fatal("no such section", err)
	}
	for _, name := range names(root().sub) {
		if name != "version" && !strings.Contains(section, "`"+name+"`") && !strings.Contains(section, "rdmalink "+name+" ") {
			t.Errorf("nothing about %s", name)
		}
	}
}

// TestManIsRoff has the formatters that are installed read it.
func TestManIsRoff(t *testing.T) {
	for program, args := range map[string]string{
		"groff":  "-man -Tutf8 -Kutf8 -ww -z",
		"mandoc": "-Tlint -Werror",
	} {
		if _, err := exec.LookPath(program); err != nil {
			continue
		}
		cmd := exec.Command(program, strings.Fields(args)...)
		cmd.Stdin = strings.NewReader(manPage())
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", program, err, out)
		}
	}
}

func TestRoffText(t *testing.T) {
	for text, want := range map[string]string{
		"a -b":  `a \-b`,
		".x":    `\&.x`,
		"'x":    `\&'x`,
		`a\fBx`: `a\efBx`,
		"2^20~": `2\(ha20\(ti`,
		" .x":   " .x",
	} {
		if got := roffText(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
