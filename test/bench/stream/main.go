//go:build linux

// Command stream is the program of goverbs for the benchmark's suite stream. It sends bytes through
// package rsocket as librdmacm's rstream does, messages and batches of READs through package msg and
// through plain queue pairs. It prints samples.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/test/bench/result"
)

const usage = `usage: stream serve KIND ADDRESS:PORT SIZE ROUNDS COUNT    one connection, then the end
       stream dial KIND ADDRESS:PORT SIZE ROUNDS COUNT     the other end; prints samples

In each round COUNT pieces of SIZE bytes go to the server, and as many come back.
KIND: rsocket, for a stream; msg or verbs, for messages.
KIND msg-batch, verbs-batch, or engine-batch of package transfer: in each round the client READs COUNT pieces of SIZE bytes in one batch.`

// An exchange holds the arguments after the first.
type exchange struct {
	kind, addr          string
	size, rounds, count int
}

// kinds holds the functions of the two ends of each kind. The client returns samples.
var kinds = map[string]struct {
	serve func(context.Context, exchange) error
	dial  func(context.Context, exchange) ([]result.Sample, error)
}{
	"rsocket": {serveStream, dialStream},
	"msg":     {serveMessages, dialMessages},
	"verbs":   {serveMessages, dialMessages},

	"msg-batch":    {serveMsgBatches, dialBatches},
	"verbs-batch":  {serveVerbsBatches, dialBatches},
	"engine-batch": {serveSlices, dialBatches},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "stream:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 6 {
		return fmt.Errorf("%d words\n%s", len(args), usage)
	}
	x := exchange{kind: args[1], addr: args[2]}
	for i, n := range []*int{&x.size, &x.rounds, &x.count} {
		var err error
		if *n, err = strconv.Atoi(args[3+i]); err != nil || *n < 1 {
			return fmt.Errorf("%q is no positive number\n%s", args[3+i], usage)
		}
	}
	kind, known := kinds[x.kind]
	switch {
	case known && args[0] == "serve":
		return kind.serve(context.Background(), x)
	case known && args[0] == "dial":
		samples, err := kind.dial(context.Background(), x)
		if err != nil {
			return err
		}
		return printSamples(samples)
	}
	return fmt.Errorf("%q is not known\n%s", args[:2], usage)
}

func printSamples(samples []result.Sample) error {
	for _, s := range samples {
		if err := result.Write(os.Stdout, s); err != nil {
			return err
		}
	}
	return nil
}
