package main

import (
	"bufio"
	"maps"
	"slices"
	"strconv"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// printer prints objects in the exact shape of iproute2: in text a line of
// "key value " each, as JSON an array, in one line or pretty with the line
// breaks of iproute2's json_writer. A field is given once, for both.
type printer struct {
	out          *bufio.Writer
	json, pretty bool
	oneline      bool   // in text: what would break a line is a backslash
	b            []byte // the object that is being made; as JSON it begins with a comma
	fields       int    // it has by now
	begun        bool   // an object was printed
	held         map[uint32][]byte
}

func (t *tool) printer() *printer {
	p := &printer{out: bufio.NewWriterSize(t.Stdout, 32<<10), json: t.JSON, pretty: t.Pretty, oneline: t.oneline, held: make(map[uint32][]byte)}
	if p.json {
		p.out.WriteString("[")
		p.space()
	}
	return p
}

// space is the blank that pretty JSON has.
func (p *printer) space() {
	if p.pretty {
		p.out.WriteByte(' ')
	}
}

// close ends the output, after an error too, so that JSON stays JSON.
func (p *printer) close() error {
	if p.json {
		if p.begun {
			p.space()
		}
		p.out.WriteString("]\n")
	}
	return p.out.Flush()
}

// begin starts an object.
func (p *printer) begin() {
	p.b, p.fields = p.b[:0], 0
	if p.json {
		p.b = append(p.b, ",{"...)
	}
}

// end prints the object. One with a place other than 0 waits for flush.
func (p *printer) end(place uint32) {
	switch {
	case !p.json:
		p.b = append(p.b, '\n')
	case p.pretty:
		p.b = append(p.b, "\n    }"...)
	default:
		p.b = append(p.b, '}')
	}
	if place != 0 {
		p.held[place] = append(p.held[place], p.b...)
		return
	}
	p.write(p.b)
}

func (p *printer) write(objects []byte) {
	if p.json && !p.begun {
		objects = objects[1:]
	}
	p.out.Write(objects)
	p.begun = true
}

// flush prints the objects that wait, in the order of their places.
func (p *printer) flush() {
	for _, place := range slices.Sorted(maps.Keys(p.held)) {
		p.write(p.held[place])
	}
	clear(p.held)
}

// name begins a field.
func (p *printer) name(key string) {
	if !p.json {
		p.b = append(append(p.b, key...), ' ')
		return
	}
	if p.fields++; p.fields > 1 {
		p.b = append(p.b, ',')
	}
	if p.pretty {
		p.b = append(p.b, "\n        "...)
	}
	p.b = append(cli.AppendJSON(p.b, key), ':')
	if p.pretty {
		p.b = append(p.b, ' ')
	}
}

// done ends a field.
func (p *printer) done() {
	if !p.json {
		p.b = append(p.b, ' ')
	}
}

// text is for text alone.
func (p *printer) text(s string) {
	if !p.json {
		p.b = append(p.b, cli.Printable(s)...)
	}
}

// newline goes on with the object on a line of its own, in text.
func (p *printer) newline() {
	switch {
	case p.json:
	case p.oneline:
		p.b = append(p.b, "\\    "...)
	default:
		p.b = append(p.b, "\n    "...)
	}
}

func (p *printer) number(v uint64) { p.b = strconv.AppendUint(p.b, v, 10) }

func (p *printer) uint(key string, v uint64) {
	p.name(key)
	p.number(v)
	p.done()
}

func (p *printer) int(key string, v int64) {
	p.name(key)
	p.b = strconv.AppendInt(p.b, v, 10)
	p.done()
}

func (p *printer) word(key, v string) {
	p.name(key)
	p.value(v)
	p.done()
}

// wordIf leaves out a field that is empty.
func (p *printer) wordIf(key, v string) {
	if v != "" {
		p.word(key, v)
	}
}

func (p *printer) value(v string) {
	if p.json {
		p.b = cli.AppendJSON(p.b, v)
	} else {
		p.b = append(p.b, cli.Printable(v)...)
	}
}

// hex prints 0x12 in text and "12" in JSON.
func (p *printer) hex(key string, v uint64) {
	p.name(key)
	if p.json {
		p.b = append(strconv.AppendUint(append(p.b, '"'), v, 16), '"')
	} else {
		p.b = strconv.AppendUint(append(p.b, "0x"...), v, 16)
	}
	p.done()
}

// onOff prints on or off in text and true or false in JSON.
func (p *printer) onOff(key string, v bool) {
	p.name(key)
	switch {
	case p.json:
		p.b = strconv.AppendBool(p.b, v)
	case v:
		p.b = append(p.b, "on"...)
	default:
		p.b = append(p.b, "off"...)
	}
	p.done()
}

// list prints 1,2,3 in text and an array in JSON.
func (p *printer) list(key string, n int, element func(i int)) {
	p.name(key)
	p.syntax("[", "[ ")
	for i := range n {
		if i > 0 {
			p.b = append(p.b, ',')
		}
		element(i)
	}
	if n > 0 {
		p.syntax("", " ")
	}
	p.syntax("]", "]")
	p.done()
}

// syntax is for JSON alone: in one line, or pretty.
func (p *printer) syntax(line, pretty string) {
	switch {
	case !p.json:
	case p.pretty:
		p.b = append(p.b, pretty...)
	default:
		p.b = append(p.b, line...)
	}
}
