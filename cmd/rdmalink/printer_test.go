package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// evilName sets the title of a terminal and begins a line of its own. Any user may give it to a process, and the kernel
// takes it as the name of a device.
const evilName = "x\x1b]0;y\ay\u009b2J\nlink z"

// TestControlCharacters: names that the kernel and sysfs have reach no terminal as they are.
func TestControlCharacters(t *testing.T) {
	check := func(line string, got result) {
		t.Helper()
		for _, text := range []string{got.Out, got.Err} {
			if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) || strings.Contains(text, "\nlink z") {
				t.Errorf("%s: %q", line, text)
			}
		}
		if !strings.Contains(got.Out, "x\\") {
			t.Errorf("%s: no name in %q, %q", line, got.Out, got.Err)
		}
	}
	for _, line := range []string{"res show qp", "res show cm_id", "res show cq", "res show mr", "res show pd", "res show ctx", "res show srq", "res", "dev", "qp states"} {
		for _, form := range []string{"", "-j ", "-jp "} {
			tool, kernel := resourceMachine()
			kernel.Devices[1].Name = evilName
			tool.Proc = host.Tree{FS: fstest.MapFS{"7/comm": {Data: []byte(evilName + "\n")}}}
			check(form+line, tool.runLine(form+line, &hosttest.Netdevs{}))
		}
	}
	for _, line := range []string{"show", "dev -d", "devinfo -d", "doctor"} {
		for _, form := range []string{"", "-j "} {
			tool, kernel, nets := informed()
			kernel.Devices[0].Name, kernel.Ports[0].DeviceName = evilName, evilName
			for i := range nets.All {
				nets.All[i].Name = evilName
			}
			kernel.Ports[0].NetdevName = evilName
			tool.OpenCM = func() error { return errors.New(evilName) }
			tool.Proc, tool.Modules = hosttest.Tree(map[string]string{"self/limits": "Max locked memory " + evilName}), hosttest.Tree(nil)
			for _, file := range tool.Sys.FS.(fstest.MapFS) {
				if file.Mode&fs.ModeSymlink == 0 {
					file.Data = []byte(evilName + "\n")
				}
			}
			check(form+line, tool.runLine(form+line, nets))
		}
	}
	event := netlinkrdma.Event{Type: netlinkrdma.EventNetdevRename, DeviceName: evilName, NetdevIndex: 1, NetdevName: evilName}
	for _, asJSON := range []bool{false, true} {
		var out strings.Builder
		tool := &tool{}
		tool.Stdout, tool.JSON = &out, asJSON
		if err := tool.printEvent(event); err != nil {
			t.Fatal(err)
		}
		if err := tool.printWatched(watchEvent{Device: evilName, Netdev: evilName, NetdevIndex: 1}); err != nil {
			t.Fatal(err)
		}
		check("events", result{Out: out.String()})
	}
}

// TestTextGoesThroughOutput: nothing but cli.Output writes to a terminal, so that nobody
// forgets that names may be hostile.
func TestTextGoesThroughOutput(t *testing.T) {
	own := map[string]bool{ // text that is ours alone
		"usage.go": true, "man.go": true, "completion.go": true, "printer.go": true, "run.go": true,
	}
	writes := regexp.MustCompile(`(Fprint\w*|WriteString)\([\w.]*(Stdout|Stderr)\b|\.(Stdout|Stderr)\.Write`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || own[path] || path == "internal/cli/output.go" {
			return err
		}
		text, err := os.ReadFile(path)
		if found := writes.Find(text); found != nil {
			t.Errorf("%s: %s: use Printf, Note or WriteJSON of cli.Output", path, found)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
