package providertest

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/record"
)

var update = flag.Bool("update", false, "write golden recordings")

// Golden runs something that attaches a recorder to its kernel, and compares the recording
// with the golden one.
func Golden(t *testing.T, golden string, run func(attach func(*fakeverbs.Kernel))) {
	t.Helper()
	compared(t, golden, run, record.Crossings)
}

// Requests is Golden for the requests to the core.
func Requests(t *testing.T, golden string, run func(attach func(*fakeverbs.Kernel))) {
	t.Helper()
	compared(t, golden, run, record.Requests)
}

// Private is Golden for the private bytes of calls alone.
func Private(t *testing.T, golden string, run func(attach func(*fakeverbs.Kernel))) {
	t.Helper()
	compared(t, golden, run, record.Private)
}

func compared(t *testing.T, golden string, run func(attach func(*fakeverbs.Kernel)), part func(recording string) string) {
	t.Helper()
	var b bytes.Buffer
	run(record.New(&b).Attach)
	got, err := record.Masked(strings.NewReader(part(b.String())))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff, err := record.Diff(bytes.NewReader(want), strings.NewReader(got)); diff != "" || err != nil {
		t.Errorf("%v (-golden +now):\n%s", err, diff)
	}
}
