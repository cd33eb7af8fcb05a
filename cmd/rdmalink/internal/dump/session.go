package dump

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/dump/capture"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/dump/decode"
)

// session is one run of the command.
type session struct {
	cli.Output
	options
	decoder *decode.Decoder
	file    io.Writer // of -w
	writer  *capture.Writer
	first   time.Time
	packets int
	shown   int
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

// save writes the packet. A pcap file is of one link type, that of the first packet.
func (s *session) save(r capture.Record) (err error) {
	if s.writer == nil {
		if s.writer, err = capture.NewWriter(s.file, r.Link); err != nil {
			return err
		}
	}
	return s.writer.Write(r)
}
