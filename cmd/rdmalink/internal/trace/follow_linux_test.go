package trace

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// TestFollow finds the calls of processes that a program starts, and gives its exit code.
func TestFollow(t *testing.T) {
	var nodes []string
	err := follow(context.Background(), []string{"sh", "-c", "cat /dev/infiniband/uverbs97; (cat /dev/infiniband/uverbs98) & wait; exit 3"}, func(c *Call) error {
		if c.Kind != "open" || c.Result != -2 || !strings.HasPrefix(c.Error, "ENOENT: ") {
			t.Errorf("%+v", c)
		}
		nodes = append(nodes, c.Node)
		return nil
	})
	if err == nil || err.Error() != "sh: exit code 3" {
		t.Error(err)
	}
	if want := []string{"uverbs97", "uverbs98"}; !slices.Equal(nodes, want) {
		t.Errorf("%v, want %v", nodes, want)
	}
}

// TestSignals checks that a signal reaches the program, and that the program's end by it is reported.
func TestSignals(t *testing.T) {
	err := follow(context.Background(), []string{"sh", "-c", "trap 'kill -KILL $$' USR1; kill -USR1 $$; exit 0"}, nil)
	if err == nil || err.Error() != "sh: killed by SIGKILL" {
		t.Error(err)
	}
}

func TestOutput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace")
	for option, want := range map[string]string{"-o": " uverbs97 open = -2 (ENOENT: no such file or directory)\n", "-jo": `,"node":"uverbs97","call":"open","result":-2,"error":"ENOENT: no such file or directory"}` + "\n"} {
		var stderr bytes.Buffer
		err := Run(context.Background(), cli.Output{Stderr: &stderr}, []string{option, file, "--", "sh", "-c", ": 2>/dev/null < /dev/infiniband/uverbs97; true"})
		text, _ := os.ReadFile(file)
		if !strings.HasSuffix(string(text), want) || stderr.Len() > 0 {
			t.Errorf("%v: %s%s", err, text, &stderr)
		}
	}
}

// TestOutputIsInput checks that no file of the command line, nor the program itself, is overwritten.
func TestOutputIsInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script")
	const script = "#!/bin/sh\n"
	if err := os.WriteFile(file, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{{file}, {"sh", file}} {
		var usage cli.UsageError
		if err := Run(t.Context(), cli.Output{}, append([]string{"-o", file, "--"}, words...)); !errors.As(err, &usage) {
			t.Errorf("%v: %v", words, err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != script {
			t.Errorf("%v: %q, %v", words, got, err)
		}
	}
}

// TestRestarts checks that a call that the kernel restarts is one call. EINTR, and errors of devices,
// are results.
func TestRestarts(t *testing.T) {
	for result, want := range map[int64]bool{-512: true, -513: true, -514: true, -516: true, -4: false, -511: false, -517: false, 0: false, 512: false} {
		if got := restarts(result); got != want {
			t.Errorf("%d: %v", result, got)
		}
	}
}
