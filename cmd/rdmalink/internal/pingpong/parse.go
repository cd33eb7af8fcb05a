package pingpong

import (
	"fmt"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/verbs"
)

func (k *Kind) defaults() options {
	o := options{tcpPort: 18515, ibPort: 1, size: k.size, mtu: verbs.MTU1024, rxDepth: 500, iters: 1000, gid: -1, qpCount: 1}
	if k.srq {
		o.qpCount = 16
	}
	return o
}

func parse(k *Kind, args []string) (options, error) {
	o := k.defaults()
	if err := k.options().Parse(&o, args, o.setHost); err != nil {
		return o, err
	}
	return o, o.check()
}

func (o *options) setHost(word string) error {
	if o.host != "" || word == "" {
		return cli.UsageError{Text: fmt.Sprintf("%q is one word too many", word)}
	}
	o.host = word
	return nil
}

// check returns an error for options that contradict each other.
func (o *options) check() error {
	switch {
	case o.qpCount > o.rxDepth:
		return cli.UsageError{Text: fmt.Sprintf("-r %d is too little for %d QPs: each needs a receive", o.rxDepth, o.qpCount)}
	case o.prefetch && !o.odp:
		return cli.UsageError{Text: "-P is for memory that is paged in on demand: -o"}
	}
	return nil
}
