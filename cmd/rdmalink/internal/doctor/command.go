package doctor

import (
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/selftest"
)

// Command returns the command doctor.
func Command() cli.Command {
	return cli.Command{
		Names:   []string{"doctor"},
		Args:    "[DEV]",
		Summary: "look for common problems, and suggest remedies",
		Details: Details() + selftest.Details,
		Options: []cli.Option{{Long: "--selftest", Summary: "try every operation that DEV offers"}},
		Run:     consult,
	}
}

func consult(ctx context.Context, t *cli.Tool, w *cli.Words) error {
	name, err := w.LastValue("DEV")
	_, test := t.Option("--selftest")
	switch {
	case err != nil:
		return err
	case test && name == "":
		return cli.UsageError{Text: "--selftest needs the device: doctor --selftest DEV"}
	case test:
		return selftest.Run(ctx, &t.Machine, &t.Output, name)
	}
	return Run(&t.Machine, &t.Output, name)
}
