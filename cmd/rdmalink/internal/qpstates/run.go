// Package qpstates draws the state machine of a queue pair, and says where the QPs of
// this host stand.
package qpstates

import (
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
A QP is made in RESET. Before it works, its program moves it to INIT, RTR (ready to
receive) and RTS (ready to send), and tells it with each step what it must know by
then. rdma_cm does this for its users. The drawing is followed by what each state
allows, by the attributes of each transition, named as in verbs.QPAttr, and by the
QPs of this host, those of the kernel with the kernel's name for them in brackets.
The table is that of the InfiniBand specification, volume 1, 10.3.1.

On a host without RDMA all but the last part is printed.`

// picture is the output of the command.
type picture struct {
	types []verbs.QPType
	qps   []qp
	asked bool // qps are known
}

// Show prints it, of the type of this name or of all, or writes an SVG file.
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

// Names are the words for Show.
func Names() []string {
	var all []string
	for _, t := range qpstate.Types() {
		all = append(all, strings.ToLower(t.String()))
	}
	return all
}
