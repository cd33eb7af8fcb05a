package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
)

// withUsage adds the usage line of the last command of the path to a usage error.
func withUsage(path []Command, err error) error {
	var usage UsageError
	if !errors.As(err, &usage) || usage.Usage != "" {
		return err
	}
	usage.Usage = fmt.Sprintf("\nUsage: %s (more: %s -h)", usageLine(path), CommandLine(path))
	return usage
}

// CommandLine returns the words that lead to the last command of the path.
func CommandLine(path []Command) string { return strings.Join(CommandNames(path), " ") }

func usageLine(path []Command) string {
	c := path[len(path)-1]
	line := CommandLine(path)
	if len(c.Sub) > 0 {
		line += " [OPTIONS] COMMAND"
	}
	if c.Args != "" {
		line += " " + c.Args
	}
	return line
}

// writeHelp prints the help of the last command of the path.
func writeHelp(out io.Writer, path []Command) error {
	c := path[len(path)-1]
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s\n%s\n", usageLine(path), c.Summary)
	if c.Details != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(c.Details))
	}
	if len(c.Sub) > 0 {
		b.WriteString("\nCommands:\n")
		for _, s := range c.Sub {
			fmt.Fprintf(&b, "  %-36s %s\n", strings.TrimSpace(s.Name()+" "+s.Args), s.Summary)
		}
	}
	if options := optionsOf(path); !c.Raw {
		b.WriteString("\nOptions:\n")
		for _, o := range options {
			fmt.Fprintf(&b, "  %2s%-1s %-14s %s\n", o.Short, comma(o), strings.TrimSpace(o.Long+" "+o.Value), o.Summary)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func comma(o Option) string {
	if o.Short == "" {
		return ""
	}
	return ","
}

// HelpCommand returns the command help, which prints the help of the commands
// that follow it. above names the commands that it stands below.
func HelpCommand(above ...string) Command {
	return Command{
		Names:   []string{"help"},
		Summary: "print the help of a command, as -h does",
		Args:    "[COMMAND]...",
		Run:     func(_ context.Context, t *Tool, w *Words) error { return t.WriteHelp(append(above, w.Rest()...)...) },
	}
}

// WriteHelp prints the help of the command that the words lead to.
func (t *Tool) WriteHelp(words ...string) error {
	path := []Command{t.root}
	for _, word := range words {
		next, err := path[len(path)-1].find(word)
		if err != nil {
			return err
		}
		path = append(path, next)
	}
	return writeHelp(t.Stdout, path)
}

// VersionCommand returns the command version.
func VersionCommand() Command {
	return Command{Names: []string{"version"}, Summary: "print the version", Run: func(ctx context.Context, t *Tool, w *Words) error {
		if err := w.End(); err != nil {
			return err
		}
		return showVersion(ctx, t, w)
	}}
}

// showVersion prints the module's version, or else the commit, as the build
// recorded it.
func showVersion(_ context.Context, t *Tool, _ *Words) error {
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
