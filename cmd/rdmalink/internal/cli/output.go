package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
)

// Output is where a command prints to, and in which form.
type Output struct {
	Stdout, Stderr io.Writer
	JSON, Pretty   bool
	Details        int // how often they were asked for
}

// WriteJSON prints a value, in one line or pretty.
func (o *Output) WriteJSON(v any) error {
	e := json.NewEncoder(o.Stdout)
	e.SetEscapeHTML(false)
	if o.Pretty {
		e.SetIndent("", "    ")
	}
	return e.Encode(v)
}

// Note tells what the user should know although the command did its work.
func (o *Output) Note(format string, args ...any) {
	fmt.Fprintf(o.Stderr, "rdmalink: note: "+format+"\n", args...)
}

// packages are the names that begin an error, or the one it wraps.
var packages = regexp.MustCompile(`(^|: |\n)((netlinkrdma|rdmacm|uverbs): )+`)

// Plain leaves out which package an error comes from: the operation says enough.
func Plain(err error) string { return packages.ReplaceAllString(err.Error(), "$1") }
