package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// TestManIsComplete checks that the page has each command that runs, and each option.
func TestManIsComplete(t *testing.T) {
	page := cli.ManPage(root())
	for path := range cli.AllCommands(root()) {
		c := path[len(path)-1]
		if c.Run != nil && c.Name() != "help" && !strings.Contains(page, `.SS "`+escaped(cli.CommandLine(path))) {
			t.Errorf("nothing about %s", cli.CommandLine(path))
		}
		for _, o := range c.Options {
			if !strings.Contains(page, escaped(o.Long)) {
				t.Errorf("nothing about %s of %s", o.Long, cli.CommandLine(path))
			}
		}
	}
}

// escaped escapes a word for roff.
func escaped(word string) string { return strings.ReplaceAll(word, "-", `\-`) }

// TestReadmeIsComplete checks that the README names each command.
func TestReadmeIsComplete(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	_, section, _ := strings.Cut(string(page), "\n## Tools\n")
	section, _, found := strings.Cut(section, "\n## ")
	if err != nil || !found {
		t.Fatal("no such section", err)
	}
	for _, name := range cli.CommandNames(root().Sub) {
		if name != "version" && !strings.Contains(section, "`"+name+"`") && !strings.Contains(section, "rdmalink "+name+" ") {
			t.Errorf("nothing about %s", name)
		}
	}
}

// TestManIsRoff checks the page with the formatters that are installed.
func TestManIsRoff(t *testing.T) {
	for program, args := range map[string]string{
		"groff":  "-man -Tutf8 -Kutf8 -ww -z",
		"mandoc": "-Tlint -Werror",
	} {
		if _, err := exec.LookPath(program); err != nil {
			continue
		}
		cmd := exec.Command(program, strings.Fields(args)...)
		cmd.Stdin = strings.NewReader(cli.ManPage(root()))
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", program, err, out)
		}
	}
}
