package doctor

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

// level is how bad a finding is.
type level string

const (
	fine    level = "ok"
	noted   level = "note"
	problem level = "problem"
)

// finding is the result of a check, with a remedy.
type finding struct {
	check  string // its name, which consult fills in
	level  level
	text   string
	remedy string
}

func found(l level, remedy, format string, args ...any) finding {
	return finding{level: l, text: fmt.Sprintf(format, args...), remedy: remedy}
}

// failure returns the finding for an error. The error's hint is the remedy.
func failure(err error, otherwise string) finding {
	var verb *uverbs.Error
	var cm *rdmacm.OpError
	hint := ""
	switch {
	case errors.As(err, &verb):
		hint = verb.Hint
	case errors.As(err, &cm):
		hint = cm.Hint
	}
	text := cli.Plain(err)
	if hint == "" {
		return finding{level: problem, text: text, remedy: otherwise}
	}
	text = strings.TrimSuffix(strings.TrimSuffix(text, ": "+hint), " ("+hint+")")
	return finding{level: problem, text: text, remedy: hint}
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
