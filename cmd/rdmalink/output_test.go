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

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli/clitest"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
)

// evilName, when printed, sets the title of a terminal and begins a new line. Any user may give a process this name,
// and the kernel accepts it as the name of a device.
const evilName = "x\x1b]0;y\ay\u009b2J\nlink z"

// TestControlCharacters checks that names from the kernel and sysfs are escaped before they reach a terminal.
func TestControlCharacters(t *testing.T) {
	check := func(line string, got clitest.Result) {
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
			tool, kernel := clitest.Resources()
			kernel.Devices[1].Name = evilName
			tool.Proc = host.Tree{FS: fstest.MapFS{"7/comm": {Data: []byte(evilName + "\n")}}}
			check(form+line, runLine(tool, form+line, &hosttest.Netdevs{}))
		}
	}
	for _, line := range []string{"show", "dev -d", "devinfo -d", "doctor"} {
		for _, form := range []string{"", "-j "} {
			tool, kernel, nets := clitest.Informed()
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
			check(form+line, runLine(tool, form+line, nets))
		}
	}
}

// TestTextGoesThroughOutput checks that only cli.Output writes to a terminal, because names
// may be hostile.
func TestTextGoesThroughOutput(t *testing.T) {
	own := map[string]bool{ // text that is ours alone
		"cli/help.go": true, "cli/man.go": true, "cli/completion_scripts.go": true, "cli/tool.go": true, "cli/output.go": true, "rdma/printer.go": true,
	}
	writes := regexp.MustCompile(`(Fprint\w*|WriteString)\([\w.]*(Stdout|Stderr)\b|\.(Stdout|Stderr)\.Write`)
	err := filepath.WalkDir("internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || own[strings.TrimPrefix(filepath.ToSlash(path), "internal/")] {
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
