// Package table prints the properties of objects, as text and as JSON, from one
// table. It is for output that rdma has no equivalent of.
package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// Table is a list of properties, in order. The first entry is the name.
type Table []Entry

// Entry is a line of a table. Value is a string, a number, a bool, Names, or a list
// of tables. A []string has a line for each element.
type Entry struct {
	Key   string
	Value any
	unit  Unit
}

// Unit is the unit of a number: text prints it after the number, JSON in the name.
type Unit string

const (
	Bytes Unit = "bytes"
	KHz   Unit = "kHz"
	Usec  Unit = "usec"
	Kbps  Unit = "kb/s"
	Mbps  Unit = "Mb/s"
)

var unitSuffix = map[Unit]string{Bytes: "_bytes", KHz: "_khz", Usec: "_usec", Kbps: "_kbps", Mbps: "_mbps"}

// Names is one line of names.
type Names []string

func (n Names) String() string {
	if len(n) == 0 {
		return "none"
	}
	return strings.Join(n, " ")
}

// Tables are several tables of a kind, below another one. Tables of one line are
// printed in columns.
type Tables struct {
	Singular string
	OneLine  bool
	All      []Table
}

func (t *Table) Add(key string, value any) { *t = append(*t, Entry{Key: key, Value: value}) }

// AddText adds a property unless it is unknown.
func (t *Table) AddText(key, value string) {
	if value != "" {
		t.Add(key, value)
	}
}

func (t *Table) AddUnit(key string, value uint64, u Unit) {
	*t = append(*t, Entry{key, value, u})
}

// MarshalJSON returns an object with the properties in order.
func (t Table) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, e := range t {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(append(cli.AppendJSON(nil, e.Key+unitSuffix[e.unit]), ':'))
		value := e.Value
		if list, ok := value.(Tables); ok {
			value = append([]Table{}, list.All...) // never null
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

// Write prints them for readers: a line each entry, under the name.
func Write(out *cli.Output, all []Table) error {
	var b strings.Builder
	for i, t := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(t[0].text() + "\n")
		t[1:].write(&b, 1)
	}
	return out.Printf("%s", b.String())
}

const keyColumn = 32

func (t Table) write(b *strings.Builder, depth int) {
	line := func(key, value string) {
		text := fmt.Sprintf("%*s%-*s %s", 2*depth, "", keyColumn-2*depth, key, value)
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	for _, e := range t {
		switch v := e.Value.(type) {
		case Tables:
			for _, below := range v.All {
				name := v.Singular + " " + below[0].text()
				if v.OneLine {
					line(name, below[1:].sideBySide())
					continue
				}
				line(name, "")
				below[1:].write(b, depth+1)
			}
		case []string:
			for _, s := range v {
				line(e.Key, cli.Printable(s))
			}
		default:
			line(e.Key, e.text())
		}
	}
}

func (t Table) sideBySide() string {
	values := make([]string, len(t))
	for i, e := range t {
		values[i] = e.text()
	}
	return strings.Join(values, "  ")
}

func (e Entry) text() string {
	switch {
	case e.Value == true:
		return "yes"
	case e.Value == false:
		return "no"
	case e.unit != "":
		return fmt.Sprintf("%v %s", e.Value, e.unit)
	}
	return cli.Printable(fmt.Sprint(e.Value)) // names are the kernel's, and it takes any
}
