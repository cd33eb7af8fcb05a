package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestSurface checks that make surface prints the lines of apidiff except those about experimental names.
func TestSurface(t *testing.T) {
	awk, err := exec.LookPath("awk")
	if err != nil {
		t.Skip("no awk")
	}
	const api = `ib/mad: // experimental
uverbs: func ImportFile(f *os.File) (*Device, error) // experimental
uverbs: func Open(name string) (*Device, error)
uverbs: method (*Device) AllocDM(length, align uint64) (*DM, error) // experimental
uverbs: method (*Device) AllocPD() (*PD, error)
uverbs: type DM struct // experimental
`
	const exempt = `- ./ib/mad.Get: removed
- ./uverbs.ImportFile: changed from A to B
- ./uverbs.(*Device).AllocDM: removed
- ./uverbs.(*DM).Close: removed
- ./uverbs.DM.Size: removed
- ./uverbs.DM: removed
`
	const bad = `- ./uverbs.Open: removed
- ./uverbs.(*Device).AllocPD: removed
- ./rdmacm.Listen: changed from A to B
- ./uverbs.DMA: removed
`
	dir := t.TempDir()
	for name, text := range map[string]string{"api": api, "exempt": exempt, "both": "Incompatible changes:\n" + exempt + bad} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for diff, want := range map[string]string{"exempt": "", "both": bad} {
		out, err := exec.Command(awk, "-f", "surface.awk", filepath.Join(dir, "api"), filepath.Join(dir, diff)).CombinedOutput()
		if string(out) != want || (err == nil) != (want == "") {
			t.Errorf("%s: %v\n%s", diff, err, out)
		}
	}
}
