// Package doctor looks for common problems with RDMA, and suggests remedies.
package doctor

import (
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
)

// Details returns the help text, with the checks from their table.
func Details() string {
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
