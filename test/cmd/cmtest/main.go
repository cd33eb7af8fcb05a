// Cmtest stands in for librdmacm's test programs, so that kernel tests can put a program in Go at either end:
//
//	cmtest ucmatose -b 10.0.0.1 -c 100 -m
//
// It has the options of the programs that the tests use, and no others. One more program, onesided, has no counterpart there: it tries WRITE, READ
// and atomic operations without a connection manager, and compares the data.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/verbs"
)

// program is one of the programs: its options, of which all have their letters in C, and what it does.
type program struct {
	flags func(*flag.FlagSet, *session)
	run   func(context.Context, *session) error
}

var programs = map[string]program{
	"ucmatose":     {matoseFlags, func(ctx context.Context, s *session) error { return (&matose{session: s}).run(ctx) }},
	"udaddy":       {udaddyFlags, runUdaddy},
	"mckey":        {mckeyFlags, runMckey},
	"cmtime":       {cmtimeFlags, func(ctx context.Context, s *session) error { return (&timing{session: s}).run(ctx) }},
	"rdma_client":  {clientFlags, func(ctx context.Context, s *session) error { return ask(ctx, s, (*once).first) }},
	"rdma_server":  {serverFlags, func(ctx context.Context, s *session) error { return serve(ctx, s, (*once).second) }},
	"rdma_xclient": {xclientFlags, runXClient},
	"rdma_xserver": {xserverFlags, runXServer},
	"onesided":     {onesidedFlags, runOnesided},
}

func main() {
	if len(os.Args) < 2 || programs[os.Args[1]].run == nil {
		fmt.Fprintln(os.Stderr, "usage: cmtest ucmatose|udaddy|mckey|cmtime|rdma_client|rdma_server|rdma_xclient|rdma_xserver|onesided [OPTIONS]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	name := os.Args[1]
	s := &session{name: name, start: time.Now(), portSpace: verbs.PortSpaceTCP, tos: -1, ackTimeout: -1}
	f := flag.NewFlagSet(name, flag.ExitOnError)
	programs[name].flags(f, s)
	_ = f.Parse(os.Args[2:]) // which exits if it fails
	if err := programs[name].run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "cmtest:", err)
		os.Exit(1)
	}
}

// session is one run, with the options of all programs. Each program uses some of them.
type session struct {
	name  string
	start time.Time

	server, bind, group string
	device              string
	port, connections   int
	portSpace           verbs.PortSpace
	xrc                 bool
	count, size         int // of messages
	tos, ackTimeout     int // negative: the system's
	migrate             bool
	sender, sendOnly    bool
	noMulticastLoopback bool
}

func (s *session) endsFlags(f *flag.FlagSet) {
	f.StringVar(&s.server, "s", "", "server's `address`; without it this is the server")
	f.StringVar(&s.bind, "b", "", "own `address`")
}

func (s *session) portFlag(f *flag.FlagSet) { f.IntVar(&s.port, "p", 7471, "server's `port`") }

func (s *session) connectionsFlag(f *flag.FlagSet, usual int) {
	f.IntVar(&s.connections, "c", usual, "`number` of connections")
}

func (s *session) messagesFlags(f *flag.FlagSet) {
	f.IntVar(&s.count, "C", 10, "`number` of messages each way on a connection")
	f.IntVar(&s.size, "S", 100, "`bytes` of a message")
}

func (s *session) tosFlag(f *flag.FlagSet) {
	f.Func("t", "type of service, for the client", func(v string) error {
		n, err := strconv.ParseUint(v, 0, 8)
		s.tos = int(n)
		return err
	})
}

// say prints a line of progress.
func (s *session) say(format string, args ...any) {
	fmt.Printf(s.name+": "+format+"\n", args...)
}

// connected says that all connections are established, over the device.
func (s *session) connected(device string, n int) {
	s.say("%d connections over %s, %v", n, device, time.Since(s.start))
}

// transferred says that all messages have passed.
func (s *session) transferred(sent, received int) {
	s.say("%d messages sent, %d received", sent, received)
}

// parseAddr parses the address of an option, the zero Addr if it is empty.
func parseAddr(option, value string) (netip.Addr, error) {
	if value == "" {
		return netip.Addr{}, nil
	}
	ip, err := netip.ParseAddr(value)
	if err != nil {
		return ip, fmt.Errorf("-%s: %w", option, err)
	}
	return ip, nil
}

// addrs returns the local address of -b, which may be the zero Addr, and the server's.
func (s *session) addrs() (own netip.Addr, server netip.AddrPort, err error) {
	own, err1 := parseAddr("b", s.bind)
	ip, err2 := parseAddr("s", s.server)
	return own, netip.AddrPortFrom(ip, uint16(s.port)), errors.Join(err1, err2)
}

// listenAddress returns the address for Listen. No host means both address families.
func (s *session) listenAddress() string { return net.JoinHostPort(s.bind, strconv.Itoa(s.port)) }
