package main

import (
	"bytes"
	"encoding/json"
	"io"
)

// object is a JSON object whose fields keep their order.
type object []field

type field struct {
	name  string
	value any // a string or an integer
}

// writeJSON prints an array of objects in the exact shape of iproute2's
// json_writer: in one line, or pretty with its way of breaking lines.
func writeJSON(out io.Writer, objects []object, pretty bool) error {
	brk, space, end, begin := "", "", "", ""
	if pretty {
		brk, space, end, begin = "\n        ", " ", "\n    ", " "
	}
	var b bytes.Buffer
	b.WriteString("[" + begin)
	for i, o := range objects {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('{')
		for j, f := range o {
			if j > 0 {
				b.WriteByte(',')
			}
			b.WriteString(brk)
			if err := writeValue(&b, f.name); err != nil {
				return err
			}
			b.WriteString(":" + space)
			if err := writeValue(&b, f.value); err != nil {
				return err
			}
		}
		b.WriteString(end + "}")
	}
	if len(objects) > 0 {
		b.WriteString(begin)
	}
	b.WriteString("]\n")
	_, err := out.Write(b.Bytes())
	return err
}

// writeValue leaves <, > and & as they are, which json.Marshal would not.
func writeValue(b *bytes.Buffer, v any) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the encoder's newline
	return nil
}
