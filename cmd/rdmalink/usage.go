package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

func unknownOption(word string, known []option) cli.UsageError {
	all := make([]string, len(known))
	for i, o := range known {
		all[i] = o.long
	}
	return cli.Expected(word, all...)
}

// withUsage adds the usage line of the command a usage error comes from.
func withUsage(path []command, err error) error {
	var usage cli.UsageError
	if !errors.As(err, &usage) || usage.Usage != "" {
		return err
	}
	usage.Usage = fmt.Sprintf("\nUsage: %s (%s -h tells more)", usageLine(path), commandLine(path))
	return usage
}

func commandLine(path []command) string { return strings.Join(names(path), " ") }

func usageLine(path []command) string {
	c := path[len(path)-1]
	line := commandLine(path)
	if len(c.sub) > 0 {
		line += " [OPTIONS] COMMAND"
	}
	if c.args != "" {
		line += " " + c.args
	}
	return line
}

// writeHelp prints what -h says of the last command of the path.
func writeHelp(out io.Writer, path []command) error {
	c := path[len(path)-1]
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s\n%s\n", usageLine(path), c.summary)
	if c.details != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(c.details))
	}
	if len(c.sub) > 0 {
		b.WriteString("\nCommands:\n")
		for _, s := range c.sub {
			fmt.Fprintf(&b, "  %-36s %s\n", strings.TrimSpace(s.name()+" "+s.args), s.summary)
		}
	}
	if options := optionsOf(path); !c.raw {
		b.WriteString("\nOptions:\n")
		for _, o := range options {
			fmt.Fprintf(&b, "  %2s%-1s %-14s %s\n", o.short, comma(o), strings.TrimSpace(o.long+" "+o.value), o.summary)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func comma(o option) string {
	if o.short == "" {
		return ""
	}
	return ","
}

// helpCommand tells about what follows it, as words below above.
func helpCommand(above ...string) command {
	return command{
		names:   []string{"help"},
		summary: "what -h says",
		args:    "[COMMAND]...",
		run: func(_ context.Context, t *tool, w *words) error {
			path := []command{root()}
			for _, word := range append(above, w.rest()...) {
				next, err := path[len(path)-1].find(word)
				if err != nil {
					return err
				}
				path = append(path, next)
			}
			return writeHelp(t.Stdout, path)
		},
	}
}

func versionCommand() command {
	return command{names: []string{"version"}, summary: "print the version", run: func(ctx context.Context, t *tool, w *words) error {
		if err := w.end(); err != nil {
			return err
		}
		return showVersion(ctx, t, w)
	}}
}

// showVersion prints what the build recorded: the module's version, or the
// commit it was built from.
func showVersion(_ context.Context, t *tool, _ *words) error {
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		isRevision := func(s debug.BuildSetting) bool { return s.Key == "vcs.revision" }
		if i := slices.IndexFunc(info.Settings, isRevision); i >= 0 && version == "(devel)" {
			version = info.Settings[i].Value
		}
	}
	_, err := fmt.Fprintf(t.Stdout, "rdmalink, goverbs %s\n", version)
	return err
}
