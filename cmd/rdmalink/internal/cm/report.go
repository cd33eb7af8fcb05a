package cm

import (
	"errors"
	"fmt"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// report is how a run went, as -j prints it.
type report struct {
	Program     string  `json:"program"`
	Role        string  `json:"role"`
	Device      string  `json:"device,omitempty"` // of the first connection
	Connections int     `json:"connections"`      // that stood
	Sent        int     `json:"sent"`             // messages
	Received    int     `json:"received"`
	Size        int     `json:"size"` // of a message
	Connect     float64 `json:"connect_seconds"`
	Transfer    float64 `json:"transfer_seconds"`
	Seconds     float64 `json:"seconds"`
	Steps       []step  `json:"steps,omitempty"`
	Error       string  `json:"error,omitempty"`

	start time.Time
}

func newSession(program string, out cli.Output, o options) *session {
	s := &session{Output: out, options: o}
	s.report = report{Program: program, Role: "client", Size: o.size, start: time.Now()}
	if o.server == "" {
		s.report.Role = "server"
	}
	return s
}

// say prints a line of progress.
func (s *session) say(format string, args ...any) error {
	if s.JSON {
		return nil
	}
	return s.Printf(s.report.Program+": "+format+"\n", args...)
}

// passedOver prints a note about a client that did not connect.
func (s *session) passedOver(err error) { s.Note("%s", cli.PlainLine(err)) }

// connected notes that all connections stand, over the device.
func (s *session) connected(device string, n int) error {
	r := &s.report
	r.Device, r.Connections, r.Connect = device, n, time.Since(r.start).Seconds()
	return s.say("%s over %s, %.3f s", plural(n, "connection"), device, r.Connect)
}

// transferred notes that all messages have passed.
func (s *session) transferred(start time.Time, sent, received int) error {
	r := &s.report
	r.Sent, r.Received, r.Transfer = sent, received, time.Since(start).Seconds()
	return s.say("%d messages of %d bytes sent, %d received, %.3f s", sent, s.size, received, r.Transfer)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// finish prints the report if it was asked for.
func (s *session) finish(err error) error {
	if !s.JSON {
		return err
	}
	if s.report.Seconds = time.Since(s.report.start).Seconds(); err != nil {
		s.report.Error = cli.Plain(err)
	}
	return errors.Join(err, s.WriteJSON(&s.report))
}
