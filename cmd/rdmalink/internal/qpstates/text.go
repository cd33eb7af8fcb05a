package qpstates

import (
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/qpstate"
)

// writeText prints all for readers.
func (p *picture) writeText(out *cli.Output) error {
	var b strings.Builder
	machine := machineOf(p.types)
	b.WriteString(machine.draw())
	b.WriteString("\nWhat becomes of work requests, posted or found there, and of packets:\n")
	fmt.Fprintf(&b, "  %-6s %-9s %-9s %-9s\n", "", "receives", "sends", "packets")
	for _, m := range machine.meanings() {
		fmt.Fprintf(&b, "  %-6v %-9s %-9s %-9s %s\n", m.state, m.recv, m.send, m.net, m.about)
	}
	b.WriteString("\nThe attributes that a transition must have, and in brackets those it may have:\n")
	for _, typ := range p.types {
		for _, t := range qpstate.Of(typ) {
			fmt.Fprintf(&b, "  %v  %-13s %s\n", typ, fmt.Sprintf("%v to %v", t.From, t.To), attributes(t))
		}
	}
	if !p.asked {
		return out.Printf("%s", b.String())
	}
	b.WriteString("\nThe QPs of this host:\n")
	if len(p.qps) == 0 {
		b.WriteString("  none\n")
	}
	for _, q := range p.qps {
		fmt.Fprintf(&b, "  %-6s %s lqpn %d %s%s\n", q.State, cli.Printable(q.Device), q.Number, q.Type, cli.Printable(q.owner()))
	}
	return out.Printf("%s", b.String())
}

func attributes(t qpstate.Transition) string {
	var words []string
	if t.Required != 0 {
		words = append(words, t.Required.String())
	}
	if t.Optional != 0 {
		words = append(words, "["+t.Optional.String()+"]")
	}
	return strings.Join(words, " ")
}
