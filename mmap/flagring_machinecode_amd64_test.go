package mmap

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestPublishBehindMachineCode checks the machine code of PublishBehind: a locked exchange
// must precede the load of the previous element's word. A plain store or the other order
// would lose a doorbell, but too rarely for a test run to show it.
//
// If a new compiler chooses other instructions, the failure prints the listing: find the exchange and the test of the
// element's bit in it, and add their forms to store and valid.
func TestPublishBehindMachineCode(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "mmap.test")
	if out, err := exec.Command("go", "test", "-c", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const function = `FlagProducer\[go\.shape\.struct.*\)\.PublishBehind`
	listing, err := exec.Command("go", "tool", "objdump", "-s", function, binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	const store, valid = `\tXCHGL [^\n]*`, `\t(ANDL \$0x1|TESTB \$0x1|BTL \$0x0),`
	if !regexp.MustCompile(`(?s)` + store + `.*` + valid).Match(listing) {
		t.Errorf("no exchange before the look at the element before:\n%s", listing)
	}
	if regexp.MustCompile(`(?s)` + valid + `.*` + store).Match(listing) {
		t.Errorf("a look at the element before precedes the exchange:\n%s", listing)
	}
}
