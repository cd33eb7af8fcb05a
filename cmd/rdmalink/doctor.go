package main

import (
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/doctor"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/selftest"
)

func doctorCommand() command {
	return command{
		names:   []string{"doctor"},
		args:    "[DEV]",
		summary: "look for what goes wrong in practice, and say what to do about it",
		details: doctor.Details() + selftest.Details,
		options: []option{{long: "--selftest", summary: "try every operation that DEV offers", set: func(t *tool) { t.selftest = true }}},
		run:     consult,
	}
}

func consult(ctx context.Context, t *tool, w *words) error {
	name, err := w.lastValue("DEV")
	switch {
	case err != nil:
		return err
	case t.selftest && name == "":
		return cli.UsageError{Text: "--selftest needs the device: doctor --selftest DEV"}
	case t.selftest:
		return selftest.Run(ctx, &t.Machine, &t.Output, name)
	}
	return doctor.Run(&t.Machine, &t.Output, name)
}
