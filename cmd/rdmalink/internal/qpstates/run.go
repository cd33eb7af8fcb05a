// Package qpstates draws the state machine of a queue pair, and lists the states of the
// QPs of this host.
package qpstates

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/internal/qpstate"
	"github.com/goverbs/goverbs/verbs"
)

// Details is the help text.
const Details = `
A new QP is in the state RESET. Before it can be used, its program moves it to INIT,
RTR (ready to receive) and RTS (ready to send), and sets the required attributes with
each step. rdma_cm does this for its users. The drawing is followed by the operations
that each state allows, the attributes of each transition, named as in verbs.QPAttr,
and the QPs of this host. The owner of a kernel QP is in brackets. The states and
transitions are those of the InfiniBand specification, volume 1, 10.3.1.

On a host without RDMA, the last part is missing.`

// picture is the output of the command.
type picture struct {
	types []verbs.QPType
	qps   []qp
	asked bool // qps are known
}

// Show prints the picture of the named QP type, or of all types if name is empty. If
// svgFile is not empty, Show writes it there as SVG.
func Show(m *host.Machine, out *cli.Output, name, svgFile string) error {
	p := picture{types: qpstate.Types()}
	if name != "" {
		p.types = slices.DeleteFunc(p.types, func(t verbs.QPType) bool { return !strings.EqualFold(t.String(), name) })
	}
	var err error
	p.qps, err = queuePairs(m, name)
	if err != nil {
		out.Note("the QPs of this host are not known: %s", cli.Plain(err))
	}
	p.asked = err == nil
	switch {
	case svgFile != "":
		return os.WriteFile(svgFile, []byte(p.svg()), 0o666)
	case out.JSON:
		return out.WriteJSON(p.json())
	}
	return p.writeText(out)
}

// Names returns the names of the types that Show accepts.
func Names() []string {
	var all []string
	for _, t := range qpstate.Types() {
		all = append(all, strings.ToLower(t.String()))
	}
	return all
}

// writeText prints the picture as text.
func (p *picture) writeText(out *cli.Output) error {
	var b strings.Builder
	machine := machineOf(p.types)
	b.WriteString(machine.draw())
	b.WriteString("\nWhat happens to work requests and packets in each state:\n")
	fmt.Fprintf(&b, "  %-6s %-9s %-9s %-9s\n", "", "receives", "sends", "packets")
	for _, m := range machine.meanings() {
		fmt.Fprintf(&b, "  %-6v %-9s %-9s %-9s %s\n", m.state, m.recv, m.send, m.net, m.about)
	}
	b.WriteString("\nThe required attributes of each transition, and the optional ones in brackets:\n")
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

type jsonState struct {
	State    string `json:"state"`
	Receives string `json:"receives"`
	Sends    string `json:"sends"`
	Packets  string `json:"packets"`
	About    string `json:"about"`
}

type jsonTransition struct {
	Type     string   `json:"type"`
	From     string   `json:"from"`
	To       string   `json:"to"`
	Required []string `json:"required"`
	Optional []string `json:"optional"`
}

type jsonPicture struct {
	States      []jsonState      `json:"states"`
	Transitions []jsonTransition `json:"transitions"`
	Here        []qp             `json:"qps,omitzero"` // left out if unknown
}

func (p *picture) json() jsonPicture {
	var j jsonPicture
	for _, m := range machineOf(p.types).meanings() {
		j.States = append(j.States, jsonState{m.state.String(), m.recv, m.send, m.net, m.about})
	}
	for _, typ := range p.types {
		for _, t := range qpstate.Of(typ) {
			j.Transitions = append(j.Transitions, jsonTransition{typ.String(), t.From.String(), t.To.String(), names(t.Required), names(t.Optional)})
		}
	}
	if p.asked {
		j.Here = append([]qp{}, p.qps...) // never null
	}
	return j
}

func names(m verbs.QPAttrMask) []string {
	if m == 0 {
		return []string{}
	}
	return strings.Split(m.String(), "|")
}
