package record

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// masker replaces what differs from run to run.
type masker struct {
	values                  *regexp.Regexp
	keys, numbers, openings map[string]string
}

func newMasker() *masker {
	return &masker{
		values: regexp.MustCompile(`@0x[0-9a-f]+|#0x[0-9a-f]+|%[a-z][0-9]+`),
		keys:   make(map[string]string), numbers: make(map[string]string), openings: make(map[string]string),
	}
}

// opening counts the openings from 1.
func (m *masker) opening(number string) string {
	if m.openings[number] == "" {
		m.openings[number] = fmt.Sprint(len(m.openings) + 1)
	}
	return m.openings[number]
}

func (m *masker) line(l string) string {
	return m.values.ReplaceAllStringFunc(l, func(v string) string {
		switch v[0] {
		case '@':
			return "@"
		case '#':
			return order(m.keys, v)
		}
		return order(m.numbers, v)
	})
}

// order is a value's place among those that were seen.
func order(seen map[string]string, v string) string {
	if seen[v] == "" {
		seen[v] = fmt.Sprintf("%c%d", v[0], len(seen)+1)
	}
	return seen[v]
}

// Masked reads a recording, and returns it without what differs from run to run, one stream
// after the other in the order in which they began. Openings that made neither a CQ nor a QP
// are left out: librdmacm has one of its own for each device.
func Masked(r io.Reader) (string, error) {
	lines, err := read(r)
	if err != nil {
		return "", err
	}
	m := newMasker()
	var streams []string
	byStream := make(map[string][]string)
	for _, l := range busy(lines) {
		stream, what, _ := strings.Cut(m.line(l.rest), " ")
		stream = m.opening(l.opening) + " " + stream
		if !slices.Contains(streams, stream) {
			streams = append(streams, stream)
		}
		byStream[stream] = append(byStream[stream], stream+" "+what)
	}
	var b strings.Builder
	for _, stream := range streams {
		b.WriteString(strings.Join(byStream[stream], "\n") + "\n")
	}
	return b.String(), nil
}

// recorded is a line that was read.
type recorded struct{ opening, rest string }

func read(r io.Reader) (lines []recorded, err error) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		opening, rest, _ := strings.Cut(s.Text(), " ")
		if !strings.Contains(rest, " ") {
			return nil, fmt.Errorf("not a line of a recording: %q", s.Text())
		}
		lines = append(lines, recorded{opening, rest})
	}
	return lines, s.Err()
}

// looks are what an opening does that makes nothing.
var looks = regexp.MustCompile(`^(calls |asks\.)(GET_CONTEXT|QUERY_|ASYNC_EVENT_ALLOC)`)

// Requests keeps the requests of a recording, and Crossings the rest.
func Requests(recording string) string  { return keep(recording, true) }
func Crossings(recording string) string { return keep(recording, false) }

func keep(recording string, requests bool) string {
	var b strings.Builder
	for l := range strings.Lines(recording) {
		if strings.Contains(l, " asks.") == requests {
			b.WriteString(l)
		}
	}
	return b.String()
}

// busy leaves out the lines of openings that only were opened.
func busy(lines []recorded) []recorded {
	made := make(map[string]bool)
	for _, l := range lines {
		made[l.opening] = made[l.opening] || !looks.MatchString(l.rest)
	}
	return slices.DeleteFunc(lines, func(l recorded) bool { return !made[l.opening] })
}
