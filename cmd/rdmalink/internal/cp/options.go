package cp

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

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
	cli.NewRow('n', "clients", "N", "server: how many clients at a time, others wait (default 64)", cli.Number("number of clients", 1, 1<<16, func(o *options) *int { return &o.clients })),
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
		return o, cli.UsageError{Text: "expected HOST[:NAME] behind FILE"}
	case len(words) > 2:
		return o, cli.UsageError{Text: fmt.Sprintf("%q is one word too many", words[2])}
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
