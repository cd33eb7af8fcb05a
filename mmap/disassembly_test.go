package mmap

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The machine code of the stores: amd64's SFENCE, LFENCE, MOV and MOVDQU, arm64's DMB OSHLD,
// DMB OSHST, DSB ST, STR, LD4 and ST4. Loads of the arguments precede them. A jump to the report
// follows all but fromDevice.
const (
	sfence, lfence = "0faef8", "0faee8"
	mov32, mov64   = "8911", "488911"
	ret, jmp       = "c3", "e900000000"

	oshld, oshst, dsbST = "d50331bf", "d50332bf", "d5033e9f"
	str32, str64        = "b9000001", "f9000001"
	ld4, st4            = "4c400c20", "4c000c00"
	ret64, jmp64        = "d65f03c0", "14000000"
)

var movdqu = []string{
	"f30f6f02", "f30f6f4a10", "f30f6f5220", "f30f6f5a30",
	"f30f7f01", "f30f7f4910", "f30f7f5120", "f30f7f5930",
}

// inPage is the machine code that finds a word in a page: the offset is rotated by the size of a word,
// compared with the number of words, and added to the start.
func inPage(arch string, size int, branch string, store ...string) []string {
	check := map[string][]string{
		"amd64 4":  {"4889cb", "48c1cb02", "483b5808", branch, "480308"},
		"amd64 8":  {"4889cb", "48c1cb03", "483b5810", branch, "480308"},
		"amd64 64": {"4889cb", "48c1cb06", "483b5818", branch, "480308"},
		"arm64 4":  {"93c20843", "f9400404", "eb04007f", branch, "f9400000", "8b020000"},
		"arm64 8":  {"93c20c43", "f9400804", "eb04007f", branch, "f9400000", "8b020000"},
		"arm64 64": {"93c21843", "f9400c04", "eb04007f", branch, "f9400000", "8b020000"},
	}
	return append(check[fmt.Sprint(arch, " ", size)], store...)
}

var machineCode = map[string]map[string][]string{
	"amd64": {
		"store32":   inPage("amd64", 4, "7306", mov32, ret, jmp),
		"store64":   inPage("amd64", 8, "7307", mov64, ret, jmp),
		"storeWC32": inPage("amd64", 4, "730c", sfence, mov32, sfence, ret, jmp),
		"storeWC64": inPage("amd64", 8, "730d", sfence, mov64, sfence, ret, jmp),
		"copy64":    inPage("amd64", 64, "732a", append(slices.Clone(movdqu), ret, jmp)...),
		"copyWC": slices.Concat([]string{"488b7018", "4889cb", "48c1cb06", "4829de", "764c", "4889fb", "48c1cb06", "48ffcb", "4839f3", "733d", "480308", sfence},
			movdqu, []string{"4883c240", "4883c140", "48ffcb", "79cd", sfence, ret, jmp}),
		"startWC": {"4883780800", "7404", sfence, ret, jmp}, "fromDevice": {lfence, ret},
	},
	"arm64": {
		"store32":   inPage("arm64", 4, "540000c2", oshst, str32, ret64, jmp64),
		"store64":   inPage("arm64", 8, "540000c2", oshst, str64, ret64, jmp64),
		"storeWC32": inPage("arm64", 4, "540000e2", dsbST, str32, dsbST, ret64, jmp64),
		"storeWC64": inPage("arm64", 8, "540000e2", dsbST, str64, dsbST, ret64, jmp64),
		"copy64":    inPage("arm64", 64, "540000c2", ld4, st4, ret64, jmp64),
		"copyWC": {"f9400c05", "93c21843", "eb0300a5", "54000209", "93c618c6", "d10004c6", "eb0500df", "54000182", "f9400000", "8b020000",
			dsbST, ld4, st4, "91010021", "91010000", "f10004c6", "54ffff65", dsbST, ret64, jmp64},
		"startWC": {"f9400401", "b4000061", dsbST, ret64, jmp64}, "fromDevice": {oshld, ret64},
	},
}

// TestMachineCode assembles the stores of both architectures and checks the machine code. No
// test run can detect a missing barrier: amd64 orders the stores anyway, and memory does not
// behave like a device.
//
// After a change of page_*.s, the failure prints the new code: check its barriers by hand, and then copy it into
// machineCode.
func TestMachineCode(t *testing.T) {
	root := must[[]byte](t)(exec.Command("go", "env", "GOROOT").Output())
	include := filepath.Join(strings.TrimSpace(string(root)), "pkg", "include")
	line := regexp.MustCompile(`^\s+\S+\s+0x[0-9a-f]+\s+([0-9a-f]+)\s`)
	for arch, functions := range machineCode {
		object := filepath.Join(t.TempDir(), arch+".o")
		asm := exec.Command("go", "tool", "asm", "-p", "mmap", "-I", include, "-o", object, "page_"+arch+".s")
		asm.Env = append(asm.Environ(), "GOARCH="+arch)
		if out, err := asm.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		listing, err := exec.Command("go", "tool", "objdump", object).Output()
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string][]string)
		name := ""
		for l := range strings.Lines(string(listing)) {
			if after, ok := strings.CutPrefix(l, "TEXT mmap."); ok {
				name, _, _ = strings.Cut(after, "(")
			} else if m := line.FindStringSubmatch(l); m != nil && m[1] != "00000000" {
				got[name] = append(got[name], m[1])
			}
		}
		if len(got) != len(functions) {
			t.Errorf("%s: %d functions, want %d", arch, len(got), len(functions))
		}
		for name, want := range functions {
			code := got[name]
			if loads := len(code) - len(want); loads < 0 || loads > 4 || !slices.Equal(code[loads:], want) {
				t.Errorf("%s %s is %q, want it to end with %q", arch, name, code, want)
			}
		}
	}
}
