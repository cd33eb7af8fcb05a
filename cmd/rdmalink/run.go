package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/uverbs"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the kernel, the network or a peer said no
	exitUsage  = 2 // the command line makes no sense
)

// tool is what a command works with: its streams, the options given, and the
// kernel it speaks to.
type tool struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	rdma           *netlinkrdma.Client
	net            netdevs
	open           func(device string) (*uverbs.Device, error)
	openCM         func() error
	proc, sys      fs.FS // /proc and /sys
	modules        fs.FS // /lib/modules

	help, version, json, pretty, oneline, raw, force, keepNetdev bool

	details int    // how often they were asked for
	batch   string // the file that holds the commands, or "-"
	inBatch bool   // this is one of its lines
}

// run is the program without its process: it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	t := &tool{stdin: stdin, stdout: stdout, stderr: stderr, rdma: &netlinkrdma.Client{}, net: kernelNetdevs{},
		open: uverbs.Open, openCM: openCM, proc: os.DirFS("/proc"), sys: os.DirFS("/sys"), modules: os.DirFS("/lib/modules")}
	return t.run(ctx, args)
}

func (t *tool) run(ctx context.Context, args []string) int {
	if err := t.dispatch(ctx, root(), nil, &words{list: args}); err != nil {
		return t.report(err)
	}
	return exitOK
}

// report prints an error, and tells the exit code that goes with it.
func (t *tool) report(err error) int {
	fmt.Fprintf(t.stderr, "rdmalink: %s\n", plain(err))
	if errors.As(err, new(usageError)) {
		return exitUsage
	}
	return exitFailed
}

// packages are the names that begin an error, or the one it wraps.
var packages = regexp.MustCompile(`(^|: |\n)((netlinkrdma|rdmacm|uverbs): )+`)

// plain leaves out which package an error comes from: the operation says enough.
func plain(err error) string { return packages.ReplaceAllString(err.Error(), "$1") }

// note tells what the user should know although the command did its work.
func (t *tool) note(format string, args ...any) {
	fmt.Fprintf(t.stderr, "rdmalink: note: "+format+"\n", args...)
}
