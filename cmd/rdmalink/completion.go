package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

//go:embed completion.bash
var bashScript string

//go:embed completion.zsh
var zshScript string

//go:embed completion.fish
var fishScript string

func completionCommand() command {
	script := func(shell, text, use string) command {
		return command{
			names:   []string{shell},
			summary: "print the script for " + shell,
			details: use,
			run: func(_ context.Context, t *tool, w *words) error {
				if err := w.end(); err != nil {
					return err
				}
				_, err := io.WriteString(t.Stdout, text)
				return err
			},
		}
	}
	return command{
		names:   []string{"completion"},
		summary: "print a script that has the shell complete commands, filters and names of devices",
		sub: []command{
			script("bash", bashScript, "Now: source <(rdmalink completion bash)\n\nAlways: rdmalink completion bash > /etc/bash_completion.d/rdmalink"),
			script("zsh", zshScript, "Now, after compinit: source <(rdmalink completion zsh)\n\nAlways: rdmalink completion zsh > _rdmalink, in a directory of $fpath"),
			script("fish", fishScript, "Now: rdmalink completion fish | source\n\nAlways: rdmalink completion fish > ~/.config/fish/completions/rdmalink.fish"),
			completionWordsCommand(),
			helpCommand("completion"),
		},
	}
}

// completionWordsCommand is what the scripts ask.
func completionWordsCommand() command {
	return command{
		names:   []string{"words"},
		args:    "[--] [WORD]...",
		summary: "print what may stand for the last WORD of a command line",
		details: "WORD... is what is typed after rdmalink, the last of them possibly empty. A line\neach: the word, and after a tab what it is, where there is more to say. Without --\na first WORD of -h is about this command.",
		raw:     true,
		run: func(_ context.Context, t *tool, w *words) error {
			if w.peek() == "--" {
				w.advance()
			}
			var b strings.Builder
			for _, c := range t.complete(w.rest()) {
				b.WriteString(cli.Printable(c.word))
				if c.about != "" {
					b.WriteString("\t" + cli.Printable(c.about))
				}
				b.WriteByte('\n')
			}
			_, err := fmt.Fprint(t.Stdout, b.String())
			return err
		},
	}
}
