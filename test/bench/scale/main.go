//go:build linux

// Command scale is the program of goverbs for the benchmark's suite scale. The C program is
// ../c/scale.c. Command scale prints rates as samples. The guest
// reads its memory while it waits.
package main

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"strconv"

	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/test/bench/result"
)

const usage = `usage: scale serve ADDRESS:PORT          accept connections, answer each message with a byte; SIGTERM ends it
       scale dial N C ADDRESS:PORT       Dial N times, C at a time, then close; prints rates
       scale conns N ADDRESS:PORT        hold N idle connections more than one`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("no command\n%s", usage)
	}
	switch name, numbers, last := args[0], numbers(args[1:]), args[len(args)-1]; {
	case name == "serve" && len(args) == 2:
		return serve(last)
	case name == "dial" && len(numbers) == 2 && len(args) == 4:
		return dialMany(numbers[0], numbers[1], last)
	case name == "conns" && len(numbers) == 1 && len(args) == 3:
		return holdConns(numbers[0], last)
	}
	return fmt.Errorf("what %q means is not known\n%s", args, usage)
}

// numbers parses the positive numbers at the beginning of args.
func numbers(args []string) (all []int) {
	for _, a := range args {
		n, err := strconv.Atoi(a)
		if err != nil || n < 1 {
			break
		}
		all = append(all, n)
	}
	return all
}

// address parses an address.
func address(text string) (netip.AddrPort, error) { return netip.ParseAddrPort(text) }

func report(measure, params, unit string, value float64) error {
	return result.Write(os.Stdout, result.Sample{Suite: "scale", Measure: measure, Params: params, Impl: "goverbs", Unit: unit, Value: value})
}

var lines = bufio.NewReader(os.Stdin)

// hold prints the number of objects and waits for a line.
func hold(n int) error {
	fmt.Println(n)
	_, err := lines.ReadString('\n')
	return err
}
