package deploy

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// TestInstall installs the program as go install …@VERSION does: from a module proxy, without this directory. The
// proxy serves both modules from the working tree, and their dependencies from the module cache.
func TestInstall(t *testing.T) {
	const root, version = "github.com/goverbs/goverbs", "v0.0.1"
	required := regexp.MustCompile(`(?m)^(\t` + regexp.QuoteMeta(root) + `) v\S+$`)
	dir := t.TempDir()
	for name, source := range map[string]string{root: "../../..", root + "/cmd/rdmalink-exporter": ".."} {
		tree := filepath.Join(dir, "tree", filepath.Base(name))
		err := filepath.WalkDir(source, func(file string, d fs.DirEntry, err error) error {
			rel, _ := filepath.Rel(source, file)
			switch {
			case err != nil:
				return err
			case d.IsDir() && slices.Contains([]string{".git", "bin", "dist"}, rel):
				return fs.SkipDir
			case d.IsDir():
				return os.MkdirAll(filepath.Join(tree, rel), 0o700)
			case !d.Type().IsRegular():
				return nil
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if rel == "go.mod" { // as the release has it
				text = required.ReplaceAll(text, []byte("$1 "+version))
			}
			return os.WriteFile(filepath.Join(tree, rel), text, 0o600)
		})
		if err != nil {
			t.Fatal(err)
		}
		publish(t, filepath.Join(dir, "proxy", name, "@v"), module.Version{Path: name, Version: version}, tree)
	}
	settings, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache, proxies, _ := strings.Cut(strings.TrimSpace(string(settings)), "\n")
	c := exec.Command("go", "install", root+"/cmd/rdmalink-exporter@"+version)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOBIN="+dir, "GOMODCACHE="+filepath.Join(dir, "cache"), "GOFLAGS=-modcacherw -trimpath", "GONOSUMDB=*", "GOWORK=",
		"GOPROXY=file://"+filepath.Join(dir, "proxy")+",file://"+filepath.Join(cache, "cache/download")+","+proxies)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.Command(filepath.Join(dir, "rdmalink-exporter"), "-h").CombinedOutput(); !strings.Contains(string(out), "-web.listen-address") {
		t.Errorf("%v\n%s", err, out)
	}
}

// publish writes what a module proxy serves for a module.
func publish(t *testing.T, dir string, m module.Version, tree string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	info, err := json.Marshal(map[string]string{"Version": m.Version, "Time": "2026-01-01T00:00:00Z"})
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(tree, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{m.Version + ".info": info, m.Version + ".mod": mod, "list": []byte(m.Version + "\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Create(filepath.Join(dir, m.Version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := zip.CreateFromDir(f, m, tree); err != nil {
		t.Fatal(err)
	}
}
