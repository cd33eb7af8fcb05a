//go:build linux

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goverbs/goverbs/test/gotest"
	"github.com/goverbs/goverbs/test/rig"
)

// results is the cache of what passed on a kernel, as go test has one, which can't serve here: it
// keeps nothing of tests that another program runs. It also remembers how long tests took.
type results struct {
	dir    string
	common string // hash of what every suite depends on
	flags  string
	times  map[string]float64 // in seconds, by package and test
}

func openResults(k rig.Kernel, o testOptions) (*results, error) {
	cache, err := rig.CacheDir()
	if err != nil {
		return nil, err
	}
	r := &results{dir: filepath.Join(cache, "results", k.Series), times: make(map[string]float64),
		flags: fmt.Sprintln(o.race, o.short, o.run, o.skip)}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return nil, err
	}
	if text, err := os.ReadFile(r.timesFile()); err == nil {
		_ = json.Unmarshal(text, &r.times) // without times the guests have unequal shares
	}
	r.common, err = inputs(k)
	return r, err
}

func (r *results) timesFile() string { return filepath.Join(r.dir, "times.json") }

// inputs hashes the inputs of tests besides their binary: the kernel, the programs that they
// start, and the files of the repository that they read.
func inputs(k rig.Kernel) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, k.Release)
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	for _, file := range []string{exe, k.Image(), filepath.Join(k.Modules(), "modules.dep")} {
		if err := hashFile(h, file); err != nil {
			return "", err
		}
	}
	all, err := installed()
	if err != nil {
		return "", err
	}
	for _, p := range closure(all, rig.Tools) {
		fmt.Fprintln(h, p.name, p.version)
	}
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	if err := hashInputs(h, os.DirFS(filepath.Dir(strings.TrimSpace(string(mod))))); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// hashInputs hashes the files of the repository that tests read.
func hashInputs(h hash.Hash, root fs.FS) error {
	for _, dir := range inputDirs {
		err := fs.WalkDir(root, dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case slices.Contains(otherRows, path):
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			case !d.Type().IsRegular():
				return nil
			}
			f, err := root.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			fmt.Fprintln(h, path)
			_, err = io.Copy(h, f)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inputDirs are what tests read of the repository.
var inputDirs = []string{"bin", "docs/concepts", "internal/abi"}

// otherRows are files that other rows of make test write there, and no kernel test reads.
var otherRows = []string{"bin/bench", "bin/demo", "bin/logs", "bin/sandbox", "bin/suite"}

// hashFile hashes the content alone: clones in other places share results.
func hashFile(h hash.Hash, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(h, f)
	return err
}

// key names the results of a suite.
func (r *results) key(s *suite) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, r.common, r.flags, s.pkg)
	if err := hashFile(h, s.binary); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// load returns nil if the suite has not passed yet.
func (r *results) load(key string) []gotest.Event {
	text, err := os.ReadFile(filepath.Join(r.dir, key))
	if err != nil {
		return nil
	}
	var events []gotest.Event
	if json.Unmarshal(text, &events) != nil {
		return nil
	}
	return events
}

// resultsFor is how long results are kept.
const resultsFor = 14 * 24 * time.Hour

// store keeps the results of a suite that passed, and drops old ones.
func (r *results) store(key string, events []gotest.Event) error {
	old, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	for _, d := range old {
		if info, err := d.Info(); err == nil && time.Since(info.ModTime()) > resultsFor {
			os.Remove(filepath.Join(r.dir, d.Name()))
		}
	}
	return writeJSON(filepath.Join(r.dir, key), events)
}

// remember keeps the times of the tests that ran.
func (r *results) remember(times []gotest.Took) error {
	for _, t := range times {
		r.times[t.Name] = t.Time.Seconds()
	}
	return writeJSON(r.timesFile(), r.times)
}

// writeJSON replaces a file as a whole: two suites may run at a time.
func writeJSON(name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(name), "new-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if _, err := tmp.Write(text); err != nil {
		tmp.Close()
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), name)
}
