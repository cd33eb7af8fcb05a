package record

import (
	"fmt"
	"strings"
)

// line is what crossed, but for the opening.
type line struct {
	stream string
	kind   string
	fields []string
}

func (l *line) text() string {
	return strings.Join(append([]string{l.stream, l.kind}, l.fields...), " ")
}

func (l *line) add(name, value string)     { l.fields = append(l.fields, name+"="+value) }
func (l *line) num(name string, v uint64)  { l.add(name, fmt.Sprint(v)) }
func (l *line) hex(name string, v uint64)  { l.add(name, fmt.Sprintf("%#x", v)) }
func (l *line) addr(name string, v uint64) { l.add(name, fmt.Sprintf("@%#x", v)) }
func (l *line) key(name string, v uint32)  { l.add(name, fmt.Sprintf("#%#x", v)) }
func (l *line) qpn(name string, v uint32)  { l.add(name, fmt.Sprintf("%%q%d", v)) }
