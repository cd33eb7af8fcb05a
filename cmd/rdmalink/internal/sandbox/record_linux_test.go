package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// TestRecordInput checks that a recording never overwrites what the command reads.
func TestRecordInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte("true"), 0o600); err != nil {
		t.Fatal(err)
	}
	var usage cli.UsageError
	if err := Run(t.Context(), cli.Output{}, []string{"--record", file, "--", "sh", file}); !errors.As(err, &usage) {
		t.Error(err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "true" {
		t.Errorf("%q, %v", got, err)
	}
}
