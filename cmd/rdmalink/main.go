// Rdmalink is a command line tool for RDMA: it shows and changes devices, links and
// the objects on them, as iproute2's rdma does; it tests connections, as librdmacm's
// rping and libibverbs's pingpong programs do; and it measures, as perftest does. It
// is one static binary that needs nothing but the kernel.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/fabriccmd"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	_ "github.com/goverbs/goverbs/provider/all"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, commandLine(os.Args), os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// commandLine returns the words of the command line. A link to the program with the name of a C program
// runs the command that replaces that program.
func commandLine(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	if words, ok := fabriccmd.Alias(filepath.Base(args[0])); ok {
		return append(words, args[1:]...)
	}
	return args[1:]
}

// run is the program without its process. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	t := &cli.Tool{Output: cli.Output{Stdout: stdout, Stderr: stderr}, Machine: host.This(), Stdin: stdin}
	return t.Run(ctx, root(), args)
}
