package rping

import (
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// The limits of a ping's size, which librdmacm's rping enforces: the text of the longest
// ping number has to fit. Port is where servers listen.
const (
	MinSize = len("rdma-ping-2147483647: ") + 1
	MaxSize = 64<<10 - 1
	Port    = 7174
)

// options is rping's command line.
type options struct {
	server, client    bool
	addr, source      string
	port              int
	count, size       int
	verbose, validate bool
	persistent, poll  bool
	ownQP, debug      bool
	asJSON            bool
}

// address returns the address to dial or to listen on.
func (o *options) address() string {
	return net.JoinHostPort(o.addr, strconv.Itoa(o.port))
}

// parse reads the words as getopt would: letters may share a word, and a
// value may stand in its letter's word or in the next.
func parse(args []string) (options, error) {
	o := options{port: Port, size: 64}
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		switch {
		case word == "--poll":
			o.poll = true
		case word == "--json":
			o.asJSON = true
		case len(word) < 2 || word[0] != '-' || word[1] == '-':
			return o, badWord(word)
		default:
			var err error
			if args, err = o.letters(word[1:], args); err != nil {
				return o, err
			}
		}
	}
	return o, o.check()
}

func badWord(word string) error {
	return cli.Expected(word, "-s", "-c", "-a", "-I", "-p", "-C", "-S", "-v", "-V", "-P", "-q", "-d", "-j", "--poll", "--json")
}

// letters applies the options of one word and returns the words not used up.
func (o *options) letters(word string, args []string) ([]string, error) {
	flags := map[byte]*bool{
		's': &o.server, 'c': &o.client, 'v': &o.verbose, 'V': &o.validate, 'P': &o.persistent, 'q': &o.ownQP, 'd': &o.debug, 'j': &o.asJSON,
	}
	for i := range len(word) {
		if flag := flags[word[i]]; flag != nil {
			*flag = true
			continue
		}
		if !strings.Contains("aIpCS", word[i:i+1]) {
			return args, badWord("-" + word[i:i+1])
		}
		value := word[i+1:]
		if value == "" {
			if len(args) == 0 {
				return args, cli.UsageError{Text: fmt.Sprintf("-%c: a value is missing", word[i])}
			}
			value, args = args[0], args[1:]
		}
		return args, o.set(word[i], value)
	}
	return args, nil
}

func (o *options) set(letter byte, value string) (err error) {
	switch letter {
	case 'a':
		o.addr = value
	case 'I':
		o.source = value
	case 'p':
		o.port, err = number("port", value, 1, math.MaxUint16)
	case 'C':
		o.count, err = number("count", value, 0, math.MaxInt32)
	case 'S':
		o.size, err = number("size", value, MinSize, MaxSize)
	}
	return err
}

func number(what, value string, least, most int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		return 0, cli.UsageError{Text: fmt.Sprintf("%q: the %s must be a number from %d to %d", value, what, least, most)}
	}
	return n, nil
}

// check returns an error for options that contradict each other.
func (o *options) check() error {
	switch {
	case o.server == o.client:
		return cli.Expected("", "-s", "-c")
	case o.client && o.addr == "":
		return cli.UsageError{Text: "-c: the server's address is missing: -a ADDR"}
	case o.client && o.persistent:
		return cli.UsageError{Text: "-P is for the server"}
	case o.server && o.source != "":
		return cli.UsageError{Text: "-I is for the client; the server's address is -a"}
	}
	return nil
}
