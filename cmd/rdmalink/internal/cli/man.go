package cli

import (
	"context"
	"io"
	"strings"
)

// ManCommand returns the command man.
func ManCommand() Command {
	return Command{
		Names:   []string{"man"},
		Summary: "print the manual page, which holds the help of all commands",
		Details: "To read it: rdmalink man | man -l -",
		Run: func(_ context.Context, t *Tool, w *Words) error {
			if err := w.End(); err != nil {
				return err
			}
			_, err := io.WriteString(t.Stdout, ManPage(t.root))
			return err
		},
	}
}

// ManPage returns the manual page rdmalink(8) in roff.
func ManPage(root Command) string {
	m := &roff{}
	m.macro(`TH RDMALINK 8 "" goverbs "System administration"`)
	m.macro("SH NAME")
	m.line(root.Name() + ` \- ` + roffText(strings.TrimSuffix(root.Summary, ".")))
	m.macro("SH SYNOPSIS")
	m.bold(usageLine([]Command{root}) + " [ARGUMENTS]")
	m.macro("SH DESCRIPTION")
	m.text(`
Commands, long options and filters may be abbreviated: rdmalink res show qp means
rdmalink resource show qp. This is also true of iproute2's rdma, whose syntax and
output, as text and as JSON, these commands have. Options may stand before or
after a command; -- ends them. The sections below are the help texts that help
and -h print.`)
	m.text(root.Details)
	m.macro("SH OPTIONS")
	m.options(root.Options)
	m.macro("SH COMMANDS")
	for path := range AllCommands(root) {
		m.command(path)
	}
	m.macro("SH EXIT STATUS")
	for _, code := range []struct{ code, about string }{
		{"0", "success"}, {"1", "the kernel, the network or a peer refused"}, {"2", "invalid command line"},
	} {
		m.tagged(code.code, code.about)
	}
	m.macro("SH SEE ALSO")
	m.text("rdma(8), ip-netns(8), rping(1), ibv_devinfo(1)")
	return m.b.String()
}

// roff builds a manual page.
type roff struct{ b strings.Builder }

func (m *roff) macro(text string) { m.b.WriteString("." + text + "\n") }

func (m *roff) line(text string) { m.b.WriteString(text + "\n") }

func (m *roff) bold(text string) {
	m.macro(`B "` + strings.ReplaceAll(roffText(text), `"`, `\(dq`) + `"`)
}

// tagged adds a term and its explanation.
func (m *roff) tagged(term, about string) {
	m.macro("TP")
	m.bold(term)
	m.line(roffText(about))
}

func (m *roff) options(list []Option) {
	for _, o := range list {
		term := o.Long
		if o.Short != "" {
			term = o.Short + ", " + o.Long
		}
		if o.Value != "" {
			term += " " + o.Value
		}
		m.tagged(term, o.Summary)
	}
}

// command adds the section about a command, unless the command only groups others. All
// help commands share one section.
func (m *roff) command(path []Command) {
	c := path[len(path)-1]
	if len(path) == 1 || c.Name() == "help" && len(path) > 2 || c.Run == nil {
		return
	}
	line := CommandLine(path)
	if c.Args != "" {
		line += " " + c.Args
	}
	m.macro(`SS "` + strings.ReplaceAll(roffText(line), `"`, `\(dq`) + `"`)
	about := c.Summary
	if len(c.Names) > 1 {
		about += " (also: " + strings.Join(c.Names[1:], ", ") + ")"
	}
	m.line(roffText(about))
	if c.Details != "" {
		m.text(c.Details)
	}
	m.options(c.Options)
}

// text adds paragraphs. A paragraph with an indented line keeps its line breaks.
func (m *roff) text(text string) {
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		asIs := strings.Contains("\n"+paragraph, "\n ")
		m.macro("PP")
		if asIs {
			m.macro("nf")
		}
		for line := range strings.SplitSeq(paragraph, "\n") {
			m.line(roffText(line))
		}
		if asIs {
			m.macro("fi")
		}
	}
}

var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "~", `\(ti`, "^", `\(ha`)

// roffText escapes a line of text for roff.
func roffText(line string) string {
	line = roffEscapes.Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		return `\&` + line
	}
	return line
}
