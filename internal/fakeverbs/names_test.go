package fakeverbs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNamesNoDriver checks that the shared files name no driver: only the package of a device knows
// it. Tables of users and of the constructors are exempt.
func TestNamesNoDriver(t *testing.T) {
	driver := regexp.MustCompile(`siw|SIW|rxe|RXE|erdma|ERDMA|mlx5|MLX5|\befa\b|\bEFA\b|EFA_`)
	for dir, tables := range map[string]map[string]bool{
		".":              {},
		"../../rdmatest": {"kind.go": true, "doc.go": true, "options.go": true},
	} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%v: %v", dir, err)
		}
		for _, file := range files {
			name := filepath.Base(file)
			if tables[name] || strings.HasSuffix(name, "_test.go") || driver.MatchString(strings.TrimSuffix(name, ".go")) {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(text), "\n") {
				if driver.MatchString(line) {
					t.Errorf("%s:%d names a driver: %s", name, i+1, strings.TrimSpace(line))
				}
			}
		}
	}
}
