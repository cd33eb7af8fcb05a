package mlx5

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestLoadBarrierMachineCode compiles the provider for both architectures. The loop that loads the
// last words of entries must be followed by the load barrier before anything else of an entry is
// read. On arm64 the load acquires, too. Package mmap's TestMachineCode has the barrier's own
// instruction, and TestWeakLoads what happens without.
//
// If a new compiler chooses other instructions, the failure prints the function's listing: check by hand that
// the loads of the last words precede the barrier and that no other load of the entry does, and then add the
// new form of a load to loads.
func TestLoadBarrierMachineCode(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the package twice")
	}
	// Loads of memory other than the stack's, and of the last word on arm64.
	for arch, loads := range map[string]string{
		"arm64": `\tMOV\w*\t-?\d*\(R\d+\), |\tLD\w*\t`,
		"amd64": `\tMOV\w*\t-?\d*\((?:[A-DR]\w+|[DS]I)\)(\([A-Z]\w+\*\d\))?, `,
	} {
		build := exec.Command("go", "build", "-gcflags=-S", ".")
		build.Env = append(build.Environ(), "GOARCH="+arch, "CGO_ENABLED=0")
		listing, err := build.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", arch, err, listing)
		}
		code := instructions(string(listing), "(*cq).ready")
		before, after, ok := strings.Cut(code, "\tCALL\tgithub.com/goverbs/goverbs/mmap.fromDevice(SB)\n")
		after, _, _ = strings.Cut(after, "\tRET")
		switch load := regexp.MustCompile(loads); {
		case !ok:
			t.Errorf("%s: there is no load barrier:\n%s", arch, code)
		case !load.MatchString(before) || arch == "arm64" && !strings.Contains(before, "\tLDARW\t"):
			t.Errorf("%s: no load of the last word precedes the barrier:\n%s", arch, code)
		case load.MatchString(after):
			t.Errorf("%s: a load follows the barrier, which is no last word's:\n%s", arch, code)
		}
	}
}

// instructions returns those of a function in a compiler's listing, each after a tab.
func instructions(listing, function string) string {
	_, code, _ := strings.Cut(listing, "."+function+" STEXT")
	if end := regexp.MustCompile(`(?m)^\S+ S[A-Z]+`).FindStringIndex(code); end != nil {
		code = code[:end[0]]
	}
	var all strings.Builder
	for _, l := range regexp.MustCompile(`(?m)^\t0x\S+ \d+ \([^)]*\)(\t[A-Z].*)$`).FindAllStringSubmatch(code, -1) {
		if !strings.Contains(l[1], "DATA\t") {
			all.WriteString(l[1] + "\n")
		}
	}
	return all.String()
}
