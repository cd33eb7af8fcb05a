// Package dump prints RoCE v2 and iWARP packets, from a capture file or from a network
// device.
package dump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/dump/capture"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/dump/decode"
)

// Details returns the help text.
func Details() string {
	return `
FILE is a capture in pcap or pcapng, - for standard input. It prints a line for each
packet of RoCE v2, and for each frame of iWARP: number and time of the packet, from
where to where, then the headers and their fields. ICRC and CRC are computed and
compared. Packets to QP 1 are shown as the messages of the connection manager that
they hold. A connection of iWARP is shown if the capture has its beginning, by which
it is found.

At most 4096 directions of iWARP connections are followed at a time, in 64 MiB. The one
that was silent for longest is left out first, and a line "damaged" says so.

A packet that rxe sends to its own device never reaches a network device, so rxe's
loopback can't be seen. siw's can, on lo.

` + flags.Help() + `
-i needs CAP_NET_RAW and ends with an interrupt. Packets that come faster than they are
read are left out, and a note says how many. -w leaves out what is neither sent to
RoCE's port nor TCP. The exit code is 0 at the end of the file or after an interrupt, 1 for what
can't be read, 2 for a command line that makes no sense.`
}

// Run is the command.
func Run(ctx context.Context, out cli.Output, stdin io.Reader, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	out.JSON = out.JSON || o.asJSON
	source, closing, err := o.open(ctx, stdin, out.Note)
	if err != nil {
		return err
	}
	if o.netdev != "" {
		out.Note("listening on %s", o.netdev)
	}
	s := &session{Output: out, options: o, decoder: decode.New()}
	if o.to == "" {
		return errors.Join(s.all(source), closing())
	}
	file, err := os.Create(o.to)
	if err != nil {
		return errors.Join(err, closing())
	}
	s.file = file
	return errors.Join(s.all(source), file.Close(), closing())
}

// isNetdev reports whether a network device has the name.
func isNetdev(name string) bool {
	_, err := net.InterfaceByName(name)
	return err == nil
}

// open returns the source of packets, and a function to call at the end.
func (o *options) open(ctx context.Context, stdin io.Reader, note func(string, ...any)) (capture.Source, func() error, error) {
	if o.netdev != "" {
		return listen(ctx, o.netdev, note)
	}
	in, closing := io.NopCloser(stdin), func() error { return nil }
	if o.file != "-" {
		file, err := os.Open(o.file)
		if errors.Is(err, fs.ErrNotExist) && isNetdev(o.file) {
			err = fmt.Errorf("%w; the network device %s is listened to with rdmalink dump -i %s", err, o.file, o.file)
		}
		if err != nil {
			return nil, nil, err
		}
		in, closing = file, file.Close
	}
	source, err := capture.Open(in)
	if err != nil {
		return nil, nil, errors.Join(err, closing())
	}
	return source, closing, nil
}
