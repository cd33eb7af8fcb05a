package perfcmd

import (
	"fmt"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/perf"
	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/verbs"
)

func parse(k Kind, args []string) (options, error) {
	o := options{tcpPort: 18515, ibPort: 1, gid: -1, given: make(map[string]bool)}
	o.Verb, o.Latency = k.Verb, k.Latency
	if err := k.parser().Parse(&o, args, o.setHost); err != nil {
		return o, err
	}
	o.complete()
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
	if why := o.conflict(); why != "" {
		return cli.UsageError{Text: why}
	}
	return nil
}

func (o *options) conflict() string {
	both := func(a, b string) bool { return o.given[a] && o.given[b] }
	switch {
	case both("duration", "iters"):
		return "-D and -n: either the time decides or the number"
	case both("duration", "all"):
		return "-D and -a: one size at a time"
	case both("size", "all"):
		return "-s and -a: either one size or all"
	case both("report-histogram", "report-unsorted"):
		return "-H and -U: either sorted or not"
	case o.given["duration"] && (o.sorted || o.unsorted):
		return "-H and -U are for -n: with -D no message is timed by itself"
	case o.given["margin"] && 2*o.margin >= o.duration:
		return "-f: twice as long has to be less than -D"
	case o.given["vector"] && !o.Events:
		return "-X is for -e"
	case o.Type == verbs.QPTypeUD && o.Verb != perftest.Send:
		return "-c UD: datagrams can do SEND only"
	case o.Type == verbs.QPTypeUC && (o.Verb == perftest.Read || o.Verb == perftest.Atomic):
		return "-c UC: READ and atomics want an answer, which RC only has"
	}
	if why := o.cmConflict(); why != "" {
		return why
	}
	return o.listConflict()
}

// cmConflict: rdma_cm decides some things itself.
func (o *options) cmConflict() string {
	if !o.CM {
		for _, name := range []string{"source_ip", "retry_count"} {
			if o.given[name] {
				return "--" + name + " is for -R"
			}
		}
		return ""
	}
	if o.Type == verbs.QPTypeUC {
		return "-R and -c UC: rdma_cm connects RC and UD only"
	}
	for _, row := range table {
		switch row.Long {
		case "gid-index", "sl", "tclass", "qp-timeout", "mtu", "ib-port", "hop_limit", "pkey_index", "dlid":
			if o.given[row.Long] {
				return fmt.Sprintf("%s and -R: rdma_cm decides that", row.Name())
			}
		}
	}
	return ""
}

func (o *options) listConflict() string {
	full := perf.Completed(o.Options)
	switch list := full.PostList; {
	case list > full.TxDepth:
		return fmt.Sprintf("-l %d: longer than the send queue, -t %d", list, full.TxDepth)
	case !o.given["duration"] && full.Iters%list != 0 && list > 1:
		return fmt.Sprintf("-n %d is no multiple of -l %d", full.Iters, list)
	case list > 1 && list%full.CQMod != 0:
		return fmt.Sprintf("-l %d is no multiple of -Q %d", list, full.CQMod)
	}
	return ""
}
