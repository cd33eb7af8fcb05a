// Package fabriccmd implements the commands for InfiniBand fabrics, which replace the programs of
// infiniband-diags.
package fabriccmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// programs returns the subcommands of fabric.
func programs() []*program {
	return []*program{ports, address, discover, links, trace, route, ping, query, counters, errorsOf, sa, sm, port, congestion, check}
}

// aliases maps the names of C's programs to words of the command line. rdmalink uses it when it is
// started through a link with such a name.
var aliases = map[string][]string{
	"ibstat":        {"ports"},
	"ibstatus":      {"ports", "--status"},
	"ibaddr":        {"address"},
	"ibnetdiscover": {"discover"},
	"ibhosts":       {"discover", "--nodes=hosts"},
	"ibswitches":    {"discover", "--nodes=switches"},
	"ibrouters":     {"discover", "--nodes=routers"},
	"ibnodes":       {"discover", "--nodes=all"},
	"iblinkinfo":    {"links"},
	"ibtracert":     {"trace"},
	"ibping":        {"ping"},
	"smpquery":      {"query"},
	"sminfo":        {"sm"},
	"perfquery":     {"counters"},
	"ibqueryerrors": {"errors"},
	"ibroute":       {"route"},
	"dump_fts":      {"route"},
	"saquery":       {"sa"},
	"ibportstate":   {"port"},
	"ibccquery":     {"congestion"},
}

// Alias returns the words that replace the name of a C program. It reports whether name is one.
func Alias(name string) ([]string, bool) {
	words, ok := aliases[name]
	return append([]string{"fabric"}, words...), ok
}

// Command returns the command fabric.
func Command() cli.Command {
	c := cli.Command{
		Names:   []string{"fabric"},
		Summary: "examine InfiniBand fabrics, as infiniband-diags do",
		Details: `
These commands need the device node /dev/infiniband/umadN of a port, and no library.
If a variable of ibsim's libumad2sim is set (SIM_HOST, IBSIM_SOCKNAME,
IBSIM_SERVER_NAME), they attach to that simulator.

If rdmalink is started through a link with the name of a C program, such as ibstat or
iblinkinfo, it runs the command that replaces that program.`,
	}
	for _, p := range programs() {
		c.Sub = append(c.Sub, cli.Command{
			Names: []string{p.name}, Args: p.args, Summary: p.summary, Details: p.details(), Raw: true,
			Run: cli.Program(p.run),
		})
	}
	return c
}

// program is a subcommand of fabric.
type program struct {
	name, args, summary string
	text                string // text of -h before the options
	help                func() string
	run                 func(ctx context.Context, t *cli.Tool, args []string) error
}

// replaces returns the names of the C programs that the command replaces.
func (p *program) replaces() string {
	var names []string
	for name, words := range aliases {
		if words[0] == p.name {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func (p *program) details() string {
	text := ""
	if names := p.replaces(); names != "" {
		text = fmt.Sprintf("\nIt replaces %s.\n", names)
	}
	return text + p.text + "\n" + p.help() + `
The exit code is 0 after success, 1 after a failure, and 2 for an invalid command
line.`
}

// commandOptions is a pointer to the options of a command, a struct that embeds common.
type commandOptions[T any] interface {
	*T
	base() *common
}

// define sets the options and the function of a program. The function gets the words of the command
// line that are not options. There may be at most most of them.
func define[T any, P commandOptions[T]](p *program, most int, rows []cli.Row[T], run func(ctx context.Context, s *session, o *T, words []string) error) *program {
	table := cli.Options(rows...)
	p.help = table.Help
	p.run = func(ctx context.Context, t *cli.Tool, args []string) error {
		var o T
		var words []string
		err := table.Parse(&o, args, func(word string) error {
			if len(words) == most {
				return cli.UsageError{Text: fmt.Sprintf("unexpected argument %q", word)}
			}
			words = append(words, word)
			return nil
		})
		if err != nil {
			return err
		}
		c := P(&o).base()
		s := &session{Output: t.Output, common: c, stdin: t.Stdin}
		s.JSON = s.JSON || c.json
		defer s.close()
		return run(ctx, s, &o, words)
	}
	return p
}
