// Package trace prints the requests of a program to RDMA's device nodes, decoded from
// its system calls.
package trace

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// Details returns the help text.
func Details() string {
	return `
trace runs PROGRAM, in any language, and prints a line to standard error for each
system call on RDMA of the program, its threads and its children: opens of the nodes
in /dev/infiniband, requests to them by object, method and attributes (ioctl) or by
command (write), rdma_cm's commands, the events received, and the results. A number
after an attribute is an object, a descriptor or a constant; (N bytes) is memory.

  rdmalink trace -- rping -c -a 10.0.0.2 -C 1

trace can't see work requests that are posted without a system call.

` + flags.Help() + `
Like strace, trace needs ptrace, which a container may forbid. The exit code is 0 if
PROGRAM's is, 1 if it is not or if PROGRAM can't be traced, 2 for a command line that
is invalid.`
}

type settings struct {
	to     string
	asJSON bool
	words  []string
}

var flags = cli.Options(
	cli.NewRow('o', "output", "FILE", "write to FILE in place of standard error", func(o *settings, v string) error { o.to = v; return nil }),
	cli.NewRow('j', "json", "", "print a line of JSON for each call", cli.Flag(func(o *settings) *bool { return &o.asJSON })),
)

// Run runs the command.
func Run(ctx context.Context, out cli.Output, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	out.JSON = out.JSON || o.asJSON
	out.Stdout = out.Stderr // standard output belongs to the traced program
	if o.to != "" {
		file, err := cli.CreateBeside(o.to, o.words)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		out.Stdout = file
	}
	return follow(ctx, o.words, func(c *Call) error {
		if out.JSON {
			return out.WriteJSON(c.table())
		}
		return out.Printf("%s\n", cli.Printable(c.String()))
	})
}

// parse takes the options up to the first other word, which is the command.
func parse(args []string) (o settings, err error) {
	at := 0
	for at < len(args) && len(args[at]) > 1 && args[at][0] == '-' && args[at] != "--" {
		if takesNext(args[at]) {
			at++
		}
		at++
	}
	at = min(at, len(args))
	if err := flags.Parse(&o, args[:at], func(word string) error { return fmt.Errorf("%q", word) }); err != nil {
		return o, err
	}
	if o.words = args[at:]; len(o.words) > 0 && o.words[0] == "--" {
		o.words = o.words[1:]
	}
	if len(o.words) == 0 {
		return o, cli.UsageError{Text: "the command is missing: rdmalink trace -- PROGRAM"}
	}
	return o, nil
}

// takesNext reports whether the value of an option is the next word: true for -o, alone
// or at the end of several letters, and for --output or an abbreviation.
func takesNext(word string) bool {
	if strings.HasPrefix(word, "--") {
		return strings.HasPrefix("--output", word)
	}
	return strings.IndexByte(word, 'o') == len(word)-1
}
