package sandbox

import (
	"os"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/record"
)

func isDiff(args []string) bool { return len(args) > 0 && args[0] == "diff" }

// diff compares two recordings. Its exit code is 1 if they differ.
func diff(out cli.Output, names []string) error {
	if len(names) != 2 {
		return cli.UsageError{Text: "expected two recordings to compare"}
	}
	a, err := os.Open(names[0])
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := os.Open(names[1])
	if err != nil {
		return err
	}
	defer b.Close()
	text, err := record.Diff(a, b)
	if err != nil || text == "" {
		return err
	}
	if err := out.Printf("%s", text); err != nil {
		return err
	}
	return cli.ExitCode(1)
}
