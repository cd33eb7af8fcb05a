package main

import (
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/doctor"
)

func doctorCommand() command {
	return command{
		names:   []string{"doctor"},
		args:    "[DEV]",
		summary: "look for what goes wrong in practice, and say what to do about it",
		details: doctor.Details(),
		run:     consult,
	}
}

func consult(_ context.Context, t *tool, w *words) error {
	name, err := w.lastValue("DEV")
	if err != nil {
		return err
	}
	return doctor.Run(&t.Machine, &t.Output, name)
}
