package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// table is what is known of something, in order. The first entry is its name.
type table []entry

// entry is a line of a table. Value is a string, a number, a bool, nameList, or
// a list of tables; a []string has a line for each.
type entry struct {
	key   string
	value any
	unit  unit
}

// unit is what text has behind a number, and JSON in the name.
type unit string

const (
	unitBytes unit = "bytes"
	unitKHz   unit = "kHz"
	unitUsec  unit = "usec"
	unitMbps  unit = "Mb/s"
)

var unitSuffix = map[unit]string{unitBytes: "_bytes", unitKHz: "_khz", unitUsec: "_usec", unitMbps: "_mbps"}

// nameList is one line of names.
type nameList []string

func (n nameList) String() string {
	if len(n) == 0 {
		return "none"
	}
	return strings.Join(n, " ")
}

// tables are several of a kind, below another one. Those of one line have their
// values side by side.
type tables struct {
	singular string
	oneLine  bool
	all      []table
}

func (t *table) add(key string, value any) { *t = append(*t, entry{key: key, value: value}) }

// addText leaves out what is not known.
func (t *table) addText(key, value string) {
	if value != "" {
		t.add(key, value)
	}
}

func (t *table) addUnit(key string, value uint64, u unit) {
	*t = append(*t, entry{key, value, u})
}

// MarshalJSON makes an object of it, in order.
func (t table) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, e := range t {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(append(cli.AppendJSON(nil, e.key+unitSuffix[e.unit]), ':'))
		value := e.value
		if list, ok := value.(tables); ok {
			value = append([]table{}, list.all...) // never null
		}
		v, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		b.Write(v)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// writeTables prints them for readers: a line each entry, under the name.
func writeTables(out io.Writer, all []table) error {
	var b strings.Builder
	for i, t := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintln(&b, t[0].value)
		t[1:].write(&b, 1)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

const keyColumn = 32

func (t table) write(b *strings.Builder, depth int) {
	line := func(key, value string) {
		text := fmt.Sprintf("%*s%-*s %s", 2*depth, "", keyColumn-2*depth, key, value)
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	for _, e := range t {
		switch v := e.value.(type) {
		case tables:
			for _, below := range v.all {
				name := fmt.Sprintf("%s %v", v.singular, below[0].value)
				if v.oneLine {
					line(name, below[1:].sideBySide())
					continue
				}
				line(name, "")
				below[1:].write(b, depth+1)
			}
		case []string:
			for _, s := range v {
				line(e.key, s)
			}
		default:
			line(e.key, e.text())
		}
	}
}

func (t table) sideBySide() string {
	values := make([]string, len(t))
	for i, e := range t {
		values[i] = e.text()
	}
	return strings.Join(values, "  ")
}

func (e entry) text() string {
	switch {
	case e.value == true:
		return "yes"
	case e.value == false:
		return "no"
	case e.unit != "":
		return fmt.Sprintf("%v %s", e.value, e.unit)
	}
	return fmt.Sprint(e.value)
}
