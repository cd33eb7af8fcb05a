package main

import (
	"context"
	"io"
	"strings"
)

//go:generate sh -c "go run . man > ../../docs/rdmalink.8"

func manCommand() command {
	return command{
		names:   []string{"man"},
		summary: "print the manual page, made of what -h says",
		details: "To read it: rdmalink man | man -l -",
		run: func(_ context.Context, t *tool, w *words) error {
			if err := w.end(); err != nil {
				return err
			}
			_, err := io.WriteString(t.Stdout, manPage())
			return err
		},
	}
}

// manPage is rdmalink(8), in roff.
func manPage() string {
	r := root()
	m := &roff{}
	m.macro(`TH RDMALINK 8 "" goverbs "System administration"`)
	m.macro("SH NAME")
	m.line(r.name() + ` \- ` + roffText(strings.TrimSuffix(r.summary, ".")))
	m.macro("SH SYNOPSIS")
	m.bold(usageLine([]command{r}) + " [ARGUMENTS]")
	m.macro("SH DESCRIPTION")
	m.text(`
A command, an option's long name and a filter may be cut short: rdmalink res show
qp means rdmalink resource show qp, as in iproute2's rdma, whose words these
commands take and whose text and JSON they print. Options go before a command or
after it; -- ends them. help, or -h, tells about each command, and what stands below
is what it says.`)
	m.text(r.details)
	m.macro("SH OPTIONS")
	m.options(r.options)
	m.macro("SH COMMANDS")
	for path := range allCommands(r) {
		m.command(path)
	}
	m.macro("SH EXIT STATUS")
	for _, code := range []struct{ code, about string }{
		{"0", "it is done"}, {"1", "the kernel, the network or a peer said no"}, {"2", "the command line makes no sense"},
	} {
		m.tagged(code.code, code.about)
	}
	m.macro("SH SEE ALSO")
	m.text("rdma(8), ip-netns(8), rping(1), ibv_devinfo(1)")
	return m.b.String()
}

// roff is a page that is being written.
type roff struct{ b strings.Builder }

func (m *roff) macro(text string) { m.b.WriteString("." + text + "\n") }

func (m *roff) line(text string) { m.b.WriteString(text + "\n") }

func (m *roff) bold(text string) {
	m.macro(`B "` + strings.ReplaceAll(roffText(text), `"`, `\(dq`) + `"`)
}

// tagged is a term and what it means.
func (m *roff) tagged(term, about string) {
	m.macro("TP")
	m.bold(term)
	m.line(roffText(about))
}

func (m *roff) options(list []option) {
	for _, o := range list {
		term := o.long
		if o.short != "" {
			term = o.short + ", " + o.long
		}
		if o.value != "" {
			term += " " + o.value
		}
		m.tagged(term, o.summary)
	}
}

// command is the part about one that does something; help is told of once.
func (m *roff) command(path []command) {
	c := path[len(path)-1]
	if len(path) == 1 || c.name() == "help" && len(path) > 2 || c.run == nil {
		return
	}
	line := commandLine(path)
	if c.args != "" {
		line += " " + c.args
	}
	m.macro(`SS "` + strings.ReplaceAll(roffText(line), `"`, `\(dq`) + `"`)
	about := c.summary
	if len(c.names) > 1 {
		about += " (also: " + strings.Join(c.names[1:], ", ") + ")"
	}
	m.line(roffText(about))
	if c.details != "" {
		m.text(c.details)
	}
	m.options(c.options)
}

// text is paragraphs; those with a line that is set in stay as they are.
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

// roffText is a line of text in which nothing means something to roff.
func roffText(line string) string {
	line = roffEscapes.Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		return `\&` + line
	}
	return line
}
