// Package cp copies files over RDMA, as librdmacm's rcopy does.
package cp

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/rsocket"
)

// Details returns the help text.
func Details() string {
	return `
  server$ rdmalink cp
  client$ rdmalink cp FILE 10.0.0.1

Without arguments, cp receives files into the current directory. With FILE and HOST,
it sends a file. NAME is the name of the file there, by default the last part of FILE.
The other end may be librdmacm's rcopy. Write an IPv6 address in brackets:
[fd00::1]:NAME.

` + table.Help() + `
Both ends print the number of bytes, the rate, and the SHA-256 of the content. Compare
the hashes yourself, because rcopy's protocol has none. On a terminal, a bar shows the
progress.

Anyone who can reach the port may send files: rcopy has no passwords. A client can
replace files in the directory and below it only: a name that leads out of it, also by
a symbolic link, is refused, unlike in C's rcopy, which writes to any path. A file is
replaced when its content is complete. Files get the permissions of FILE, reduced by
the umask.

The server disconnects a client that is idle, or that uploads less than 256 KiB in the
time of -t, and removes its incomplete file. Such a file is in the same directory, with
a name that begins with .rdmalink-; there are at most as many as there are clients.

The server runs until interrupted. The exit code is 0 if the file was sent, or after an
interrupt of the server; 1 after a failure; 2 for an invalid command line.`
}

// command is one run.
type command struct {
	cli.Output
	options
	printing sync.Mutex
}

// Run runs the command.
func Run(ctx context.Context, out cli.Output, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	out.JSON = out.JSON || o.asJSON
	c := &command{Output: out, options: o}
	if o.file != "" {
		return c.sendFile(ctx)
	}
	root, err := os.OpenRoot(".")
	if err != nil {
		return err
	}
	defer root.Close()
	var lc rsocket.ListenConfig
	l, err := lc.Listen(ctx, ":"+o.port)
	if err != nil {
		return err
	}
	return c.serve(ctx, l, root)
}

// options is the command line.
type options struct {
	file, host, name string // to send; all empty on the side that serves
	port             string
	clients, limit   int // limit in seconds
	asJSON           bool
}

// defaultClients is how many clients are served at a time.
const defaultClients = 64

var table = cli.Options(
	cli.NewRow('p', "port", "PORT", "to listen on, or to connect to (default 7427)", func(o *options, port string) error { o.port = port; return nil }),
	cli.NewRow('n', "clients", "N", "server: how many clients at a time, others wait; about half may be of one address (default 64)", cli.Number("number of clients", 1, 1<<16, func(o *options) *int { return &o.clients })),
	cli.NewRow('t', "timeout", "SECONDS", "for the peer's next message, or piece of a file (default 60; 0: no limit)", cli.Number("timeout", 0, 1<<30, func(o *options) *int { return &o.limit })),
	cli.NewRow('j', "json", "", "print a line of JSON for each file", cli.Flag(func(o *options) *bool { return &o.asJSON })),
)

func parse(args []string) (options, error) {
	o := options{port: "7427", limit: 60}
	var words []string
	err := table.Parse(&o, args, func(word string) error { words = append(words, word); return nil })
	switch {
	case err != nil:
		return o, err
	case len(words) == 0:
		if o.clients == 0 {
			o.clients = defaultClients
		}
		return o, nil
	case o.clients != 0:
		return o, cli.UsageError{Text: "-n is for the server, which has no FILE"}
	case len(words) == 1:
		return o, cli.UsageError{Text: "expected HOST[:NAME] after FILE"}
	case len(words) > 2:
		return o, cli.UsageError{Text: fmt.Sprintf("unexpected argument %q", words[2])}
	}
	o.file = words[0]
	if o.host, o.name = cutHost(words[1]); o.host == "" {
		return o, cli.UsageError{Text: fmt.Sprintf("%q: expected HOST[:NAME]", words[1])}
	}
	if o.name == "" {
		o.name = filepath.Base(o.file)
	}
	if strings.ContainsRune(o.name, 0) || len(o.name) > mostName {
		return o, cli.UsageError{Text: fmt.Sprintf("a name of %d bytes: at most %d can be sent", len(o.name), mostName)}
	}
	return o, nil
}

// cutHost parts host:name. Brackets hold an IPv6 address.
func cutHost(word string) (host, name string) {
	if inner, rest, ok := strings.Cut(strings.TrimPrefix(word, "["), "]"); ok && word[0] == '[' {
		if name, ok = strings.CutPrefix(rest, ":"); ok || rest == "" {
			return inner, name
		}
		return "", ""
	}
	host, name, _ = strings.Cut(word, ":")
	return host, name
}
