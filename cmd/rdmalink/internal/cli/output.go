package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Output is where a command prints to, and in which form.
type Output struct {
	Stdout, Stderr io.Writer
	JSON, Pretty   bool
	Details        int // how often they were asked for
}

// Printf prints text. Control characters are escaped, except for line breaks and tabs.
func (o *Output) Printf(format string, args ...any) error {
	_, err := io.WriteString(o.Stdout, printableText(fmt.Sprintf(format, args...)))
	return err
}

// WriteJSON prints a value, in one line or pretty.
func (o *Output) WriteJSON(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if o.Pretty {
		e.SetIndent("", "    ")
	}
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := o.Stdout.Write(escapeControls(b.Bytes()))
	return err
}

// escapeControls escapes the control characters that encoding/json leaves in strings: DEL,
// and U+0080 to U+009F, which some terminals obey as they obey ESC sequences.
func escapeControls(b []byte) []byte {
	var out []byte
	done := 0
	for i := range b {
		c, size := b[i], 1
		if c == 0xc2 && i+1 < len(b) && b[i+1] < 0xa0 {
			c, size = b[i+1], 2
		} else if c != 0x7f {
			continue
		}
		out = append(out, b[done:i]...)
		out = append(out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		done = i + size
	}
	if done == 0 {
		return b
	}
	return append(out, b[done:]...)
}

// Note prints information for the user about a command that succeeded, to standard error.
// Control characters are escaped as in Printf.
func (o *Output) Note(format string, args ...any) {
	fmt.Fprintf(o.Stderr, "rdmalink: note: %s\n", printableText(fmt.Sprintf(format, args...)))
}

// Ask prints a question to standard error, and stays on its line. Control characters are escaped as
// in Printf.
func (o *Output) Ask(format string, args ...any) {
	io.WriteString(o.Stderr, printableText(fmt.Sprintf(format, args...))+" ")
}

// Printable returns s with every character that is not printable replaced by its escape in
// Go syntax, including line breaks and bytes that are not UTF-8. All names from a peer, a
// device, a file or the kernel go through it on their way to a terminal: they may hold
// escape sequences that move the cursor, change the title or hide the text that follows.
func Printable(s string) string {
	plain := func(c byte) bool { return c >= ' ' && c < 0x7f }
	first := 0
	for first < len(s) && plain(s[first]) {
		first++
	}
	if first == len(s) {
		return s
	}
	b := []byte(s[:first])
	for i := first; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(b, '\\', 'x', hexDigits[s[i]>>4], hexDigits[s[i]&15])
		case strconv.IsPrint(r):
			b = append(b, s[i:i+size]...)
		default:
			quoted := strconv.AppendQuoteRune(nil, r)
			b = append(b, quoted[1:len(quoted)-1]...)
		}
		i += size
	}
	return string(b)
}

// printableText is like Printable, but keeps line breaks and tabs, for text with a layout.
func printableText(s string) string {
	var b strings.Builder
	for s != "" {
		i := strings.IndexAny(s, "\n\t")
		if i < 0 {
			i = len(s)
		}
		b.WriteString(Printable(s[:i]))
		if i < len(s) {
			b.WriteByte(s[i])
			i++
		}
		s = s[i:]
	}
	return b.String()
}

// Plain returns the text of an error. Control characters are escaped, because errors quote names from
// peers and files. Line breaks stay, because they separate joined errors.
func Plain(err error) string { return printableText(err.Error()) }

// PlainLine returns Plain in one line.
func PlainLine(err error) string { return strings.ReplaceAll(Plain(err), "\n", "; ") }

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

const hexDigits = "0123456789abcdef"

// AppendJSON appends a string in quotes. Bytes that are no UTF-8, which JSON
// can't hold, become U+FFFD.
func AppendJSON(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); {
		c, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			b = append(b, "\ufffd"...)
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c < ' ' || c >= 0x7f && c < 0xa0: // also C1, which terminals obey
			b = appendControl(b, byte(c))
		default:
			b = append(b, s[i:i+size]...)
		}
		i += size
	}
	return append(b, '"')
}

func appendControl(b []byte, c byte) []byte {
	switch c {
	case '\t':
		return append(b, `\t`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\f':
		return append(b, `\f`...)
	case '\b':
		return append(b, `\b`...)
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
