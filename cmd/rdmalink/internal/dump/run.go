// Package dump prints RoCE v2 and iWARP packets, from a capture file or from a network
// device.
package dump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/dump/capture"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/dump/decode"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
)

// Details returns the help text.
func Details() string {
	return `
FILE is a capture in pcap or pcapng format, - for standard input. dump prints a line
for each packet of RoCE v1 and v2, and for each frame of iWARP: number and time of the
packet, source and destination, then the headers and their fields. It also looks into
VLANs, MPLS, PPPoE, VXLAN and IP in IP, and puts IP fragments together. It verifies ICRC and CRC,
and decodes the connection manager's messages in packets to QP 1. It finds an iWARP
connection by its beginning, so the capture must include that.

At most 4096 directions of iWARP connections are followed at a time, in 64 MiB. The one
that was silent for longest is dropped first, with a line "damaged". At the end, a note says how many packets were skipped, and why;
with -j it is a line with the fields packets and skipped.

A packet that rxe sends to its own device never reaches a network device, so rxe's
loopback can't be captured. siw's can, on lo.

` + flags.Help() + `
-i needs CAP_NET_RAW and runs until interrupted. If packets arrive faster than dump
reads them, some are lost, and a note has their number. -w writes only packets to
RoCE's port and TCP packets. The exit code is 0 at the end of the file or after an
interrupt, 1 after a read error, 2 for an invalid command line.`
}

// Run runs the command.
func Run(ctx context.Context, out cli.Output, stdin io.Reader, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	out.JSON = out.JSON || o.asJSON
	if o.to != "" {
		input := o.file
		if input == "-" {
			input = cli.StandardInput
		}
		if err := cli.CheckOutput(o.to, input); err != nil {
			return err
		}
	}
	source, closing, err := o.open(ctx, stdin, out.Note)
	if err != nil {
		return err
	}
	if o.netdev != "" {
		out.Note("listening on %s", o.netdev)
	}
	s := &session{Output: out, options: o, decoder: decode.New()}
	if o.to == "" {
		return errors.Join(s.all(source), s.end(), closing())
	}
	file, err := os.Create(o.to)
	if err != nil {
		return errors.Join(err, closing())
	}
	s.file = file
	return errors.Join(s.all(source), s.end(), file.Close(), closing())
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
			err = fmt.Errorf("%w; to listen on network device %s, run rdmalink dump -i %s", err, o.file, o.file)
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

// options is the command line.
type options struct {
	netdev, file, to string
	count            int
	asJSON           bool
}

// flags are in the words of tcpdump(8).
var flags = cli.Options(
	cli.NewRow('i', "interface", "NETDEV", "read packets from a network device instead of a file", func(o *options, v string) error { o.netdev = v; return nil }),
	cli.NewRow('w', "write", "FILE", "write the packets to FILE (pcap) instead of printing them", func(o *options, v string) error { o.to = v; return nil }),
	cli.NewRow('c', "count", "N", "number of messages to print (default 0, no limit)", cli.Number("count", 0, math.MaxInt32, func(o *options) *int { return &o.count })),
	cli.NewRow('j', "json", "", "print a line of JSON for each message", cli.Flag(func(o *options) *bool { return &o.asJSON })),
)

func parse(args []string) (o options, err error) {
	err = flags.Parse(&o, args, func(word string) error {
		if o.file != "" || word == "" {
			return cli.UsageError{Text: fmt.Sprintf("unexpected argument %q", word)}
		}
		o.file = word
		return nil
	})
	switch {
	case err != nil:
		return o, err
	case o.file == "" && o.netdev == "":
		return o, cli.UsageError{Text: "nothing to read: give FILE or -i NETDEV"}
	case o.file != "" && o.netdev != "":
		return o, cli.UsageError{Text: "-i NETDEV and FILE exclude each other"}
	}
	return o, nil
}

// session is one run of the command.
type session struct {
	cli.Output
	options
	decoder *decode.Decoder
	file    io.Writer // of -w
	writer  *capture.Writer
	link    uint32 // of the packets that writer takes
	first   time.Time
	packets int
	shown   int
	unsaved int // by -w
	foreign int // packets that -w leaves out, because they are of another link type
}

// all reads to the end, or until enough was shown.
func (s *session) all(source capture.Source) error {
	for s.count == 0 || s.shown < s.count {
		r, err := source.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !decode.KnowsLink(r.Link) {
			return fmt.Errorf("packets of link type %d can't be read: Ethernet, Linux cooked and raw IP can", r.Link)
		}
		if err := s.packet(r); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) packet(r capture.Record) error {
	if s.packets++; s.packets == 1 {
		s.first = r.Time
	}
	messages, carries := s.decoder.Packet(r.Link, r.Data)
	if s.file != nil {
		s.shown += len(messages)
		if !carries {
			s.unsaved++
			return nil
		}
		return s.save(r)
	}
	for i := range messages {
		if s.count != 0 && s.shown == s.count {
			return nil
		}
		s.shown++
		if err := s.print(r.Time.Sub(s.first), &messages[i]); err != nil {
			return err
		}
	}
	return nil
}

// end reports how many packets were left out, and why. A file to which no packet was written gets a header.
func (s *session) end() (err error) {
	if s.file != nil {
		if s.writer == nil {
			_, err = capture.NewWriter(s.file, decode.LinkEthernet)
		}
		if s.unsaved > 0 {
			s.Note("%d of %d packets were not written: they are neither of RoCE nor of TCP", s.unsaved, s.packets)
		}
		if s.foreign > 0 {
			s.Note("%d of %d packets were not written: a pcap file has one link type, and theirs is not that of the first packet", s.foreign, s.packets)
		}
		return err
	}
	reasons := s.decoder.Skipped()
	if len(reasons) == 0 {
		return nil
	}
	if s.JSON {
		return s.WriteJSON(table.Table{{Key: "packets", Value: s.packets}, {Key: "skipped", Value: reasons}})
	}
	sum, words := 0, []string{}
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		sum += reasons[why]
		words = append(words, fmt.Sprintf("%s (%d)", why, reasons[why]))
	}
	s.Note("%d of %d packets were skipped: %s", sum, s.packets, strings.Join(words, ", "))
	return nil
}

// save writes the packet, if it has the link type of the file, which is that of the first packet.
func (s *session) save(r capture.Record) (err error) {
	if s.writer == nil {
		s.link = r.Link
		if s.writer, err = capture.NewWriter(s.file, r.Link); err != nil {
			return err
		}
	}
	if r.Link != s.link {
		s.foreign++
		return nil
	}
	return s.writer.Write(r)
}

// print prints a message. since is the time from the first packet.
func (s *session) print(since time.Duration, m *decode.Message) error {
	if s.JSON {
		t := table.Table{{Key: "packet", Value: s.packets}, {Key: "seconds", Value: since.Seconds()},
			{Key: "src", Value: m.Src.String()}, {Key: "dst", Value: m.Dst.String()}}
		for _, l := range m.Layers {
			t.Add(l.Name, l.Fields)
		}
		return s.WriteJSON(t)
	}
	return s.Printf("%d %.6f %s > %s %s\n", s.packets, since.Seconds(), m.Src, m.Dst, cli.Printable(text(m.Layers)))
}

// text returns one line: BTH RC SEND_ONLY pad 0 ...; payload length 64; ICRC correct.
func text(layers []decode.Layer) string {
	parts := make([]string, len(layers))
	for i, l := range layers {
		words := []string{l.Name}
		for _, f := range l.Fields {
			words = append(words, f.Key)
			switch v := f.Value.(type) {
			case bool:
				if !v {
					words[len(words)-1] = "not " + f.Key
				}
			case decode.Hex:
				words = append(words, fmt.Sprintf("%#x", uint64(v)))
			case string:
				if strings.Contains(v, " ") {
					v = "(" + v + ")"
				}
				words = append(words, v)
			default:
				words = append(words, fmt.Sprint(v))
			}
		}
		parts[i] = strings.Join(words, " ")
	}
	return strings.Join(parts, "; ")
}
