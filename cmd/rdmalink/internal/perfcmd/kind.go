package perfcmd

import "github.com/goverbs/goverbs/internal/perftest"

// Kind is one of perftest's programs.
type Kind struct {
	Verb    perftest.Verb
	Latency bool
}

// Program is its name in perftest.
func (k Kind) Program() string {
	return perftest.Test{Verb: k.Verb, Latency: k.Latency}.String()
}

// Name is lat or bw.
func (k Kind) Name() string {
	if k.Latency {
		return "lat"
	}
	return "bw"
}

// Details returns the help text.
func (k Kind) Details() string {
	return `
Without HOST: serve one client. With it: the client of the server there. Options
must be the same at both ends.

` + k.options().Help() + `
` + k.units() + `

Without -x the GID is one for RoCE v2: that of the address which TCP uses, if the
device has it, else one of the same address family. iWARP needs -R.

The exit code is 0 after all messages; 1 after a failure, also if the peer goes
away; 2 for a command line that makes no sense.`
}

// units explains the units of the results.
func (k Kind) units() string {
	switch {
	case !k.Latency:
		return `MB is 2^20 bytes, Gb is 10^9 bits, Mpps a million messages a second. The peak is
that of the fastest stretch of messages, with -b the sum of both ends'; it is looked
for up to 20000 messages and is 0.00 beyond.`
	case k.Verb == perftest.Send || k.Verb == perftest.Write:
		return `A latency is half of the time there and back. As in perftest the two slowest are
left out, and t_max is the second of them.`
	}
	return `A latency is the time from posting to completion. As in perftest the two slowest
are left out, and t_max is the second of them.`
}
