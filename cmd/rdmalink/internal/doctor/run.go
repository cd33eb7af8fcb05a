// Package doctor looks for common problems with RDMA, and suggests remedies.
package doctor

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/verbs"
)

// Details returns the help text, with the checks from their table.
func Details() string {
	var b strings.Builder
	b.WriteString(`
The findings apply to the process that runs doctor: run it as the same user and in
the same container as the program in question. Each line is a check without findings,
or a finding with a remedy below it. A note alone is no problem. The exit code is 1 if
there is a problem, otherwise 0.

Checks:
`)
	for _, c := range checks {
		fmt.Fprintf(&b, "  %-9s %s\n", c.name, c.about)
	}
	return b.String()
}

// Run runs all checks on the device of this name, or on all devices. It does not stop
// at the first finding.
func Run(m *host.Machine, out *cli.Output, name string) error {
	p, err := examine(m, name)
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
	if err := writeFindings(out, all); err != nil {
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

// level is how bad a finding is.
type level string

const (
	fine    level = "ok"
	noted   level = "note"
	problem level = "problem"
)

// finding is the result of a check, with a remedy.
type finding struct {
	check  string // its name, which Run fills in
	level  level
	text   string
	remedy string
}

func found(l level, remedy, format string, args ...any) finding {
	return finding{level: l, text: fmt.Sprintf(format, args...), remedy: remedy}
}

// failure returns the finding for an error. The error's hint is the remedy.
func failure(err error, otherwise string) finding {
	var e *verbs.Error
	text := cli.Plain(err)
	if !errors.As(err, &e) || e.Hint == "" {
		return finding{level: problem, text: text, remedy: otherwise}
	}
	return finding{level: problem, text: strings.TrimSuffix(text, ": "+e.Hint), remedy: e.Hint}
}

func writeFindings(out *cli.Output, all []finding) error {
	if out.JSON {
		tables := make([]table.Table, len(all))
		for i, f := range all {
			tables[i] = table.Table{{Key: "check", Value: f.check}, {Key: "level", Value: string(f.level)}, {Key: "finding", Value: f.text}}
			tables[i].AddText("remedy", f.remedy)
		}
		return out.WriteJSON(tables)
	}
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "%-8s %-9s %s\n", f.level, f.check, cli.Printable(f.text))
		if f.remedy != "" {
			fmt.Fprintf(&b, "%18s do: %s\n", "", cli.Printable(f.remedy))
		}
	}
	return out.Printf("%s", b.String())
}
