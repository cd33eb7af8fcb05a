package cli

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"strings"
)

//go:embed completion.bash
var bashScript string

//go:embed completion.zsh
var zshScript string

//go:embed completion.fish
var fishScript string

// CompletionCommand returns the command completion.
func CompletionCommand() Command {
	script := func(shell, text, use string) Command {
		return Command{
			Names:   []string{shell},
			Summary: "print the script for " + shell,
			Details: use,
			Run: func(_ context.Context, t *Tool, w *Words) error {
				if err := w.End(); err != nil {
					return err
				}
				_, err := io.WriteString(t.Stdout, text)
				return err
			},
		}
	}
	return Command{
		Names:   []string{"completion"},
		Summary: "print a shell script that completes commands, filters and device names",
		Sub: []Command{
			script("bash", bashScript, "Now: source <(rdmalink completion bash)\n\nAlways: rdmalink completion bash > /etc/bash_completion.d/rdmalink"),
			script("zsh", zshScript, "Now, after compinit: source <(rdmalink completion zsh)\n\nAlways: rdmalink completion zsh > _rdmalink, in a directory of $fpath"),
			script("fish", fishScript, "Now: rdmalink completion fish | source\n\nAlways: rdmalink completion fish > ~/.config/fish/completions/rdmalink.fish"),
			completionWordsCommand(),
			HelpCommand("completion"),
		},
	}
}

// completionWordsCommand returns the command that the completion scripts run.
func completionWordsCommand() Command {
	return Command{
		Names:   []string{"words"},
		Args:    "[--] [WORD]...",
		Summary: "print the possible completions of the last WORD of a command line",
		Details: "WORD... are the words after rdmalink, the last of them possibly empty. Each line of\noutput is a completion, followed by a tab and a description if there is one.\nWithout --, a leading -h prints the help of this command.",
		Raw:     true,
		Run: func(_ context.Context, t *Tool, w *Words) error {
			if w.Peek() == "--" {
				w.Advance()
			}
			var b strings.Builder
			for _, c := range t.Complete(t.root, w.Rest()) {
				b.WriteString(Printable(c.Word))
				if c.About != "" {
					b.WriteString("\t" + Printable(c.About))
				}
				b.WriteByte('\n')
			}
			_, err := fmt.Fprint(t.Stdout, b.String())
			return err
		},
	}
}
