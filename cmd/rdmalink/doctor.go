package main

import (
	"context"
	"fmt"
	"strings"
)

func doctorCommand() command {
	return command{
		names:   []string{"doctor"},
		args:    "[DEV]",
		summary: "look for what goes wrong in practice, and say what to do about it",
		details: doctorDetails(),
		run:     consult,
	}
}

// doctorDetails lists the checks from their table.
func doctorDetails() string {
	var b strings.Builder
	b.WriteString(`
What it finds holds for the process that runs it: run it as the program in
question is run, as the same user and in the same container. A line for each
check that is fine, or each thing that was found, with a remedy below; a note is
no problem by itself. The exit code is 1 when there is a problem, else 0.

Checks:
`)
	for _, c := range checks {
		fmt.Fprintf(&b, "  %-9s %s\n", c.name, c.about)
	}
	return b.String()
}

// consult runs all checks, whatever the first ones find.
func consult(_ context.Context, t *tool, w *words) error {
	name, err := w.lastValue("DEV")
	if err != nil {
		return err
	}
	p, err := t.examine(name)
	if err != nil {
		return err
	}
	defer p.dismiss()
	all := []finding{}
	problems := 0
	for _, c := range checks {
		for _, f := range c.run(p) {
			f.check = c.name
			all = append(all, f)
			if f.level == problem {
				problems++
			}
		}
	}
	if err := t.writeFindings(all); err != nil {
		return err
	}
	switch problems {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("doctor found a problem")
	}
	return fmt.Errorf("doctor found %d problems", problems)
}
