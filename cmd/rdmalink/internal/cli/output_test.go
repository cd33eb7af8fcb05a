package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// TestAppendJSON checks that any bytes become a valid JSON string, which decodes to the
// same bytes unless they are not UTF-8.
func TestAppendJSON(t *testing.T) {
	var every strings.Builder
	for c := range 256 {
		every.WriteByte(byte(c))
		every.WriteRune(rune(c * 0x321))
	}
	for _, s := range []string{"", "plain", "a\"b\\c", "\t\n\r\f\b\x00\x1f\x7f", "<&>'", "\xff\xfe", "grün", "\u2028", every.String()} {
		var got string
		err := json.Unmarshal(AppendJSON(nil, s), &got)
		if want := string([]rune(s)); err != nil || got != want {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
	if got := string(AppendJSON(nil, "\t\x01\x7f<é")); got != `"\t\u0001\u007f<é"` {
		t.Error(got)
	}
}

// terminalObeys finds a character that a terminal may act on.
func terminalObeys(s string) bool {
	return !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool {
		return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
	})
}

// TestPrintable checks that text and JSON contain no control characters, regardless of
// the names in them, and that plain text stays unchanged.
func TestPrintable(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "rxe0": "rxe0", `A\z~ é☃`: `A\z~ é☃`, "\x1b[2J": `\x1b[2J`, "a\nb\tc": `a\nb\tc`, "\x00\x7f": `\x00\x7f`,
		"\u009b31m": `\u009b31m`, "\x9b31m": `\x9b31m`, "\u202egpj": `\u202egpj`, "\xc3": `\xc3`, "\ufffd": "\ufffd",
	} {
		if got := Printable(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
	var every strings.Builder
	for r := range rune(0x3000) {
		every.WriteString(string(r))
	}
	evil := every.String() + "\x80\xff"
	if terminalObeys(Printable(evil)) {
		t.Error("Printable leaves characters that a terminal obeys")
	}
	var out, errs bytes.Buffer
	o := Output{Stdout: &out, Stderr: &errs}
	if err := o.Printf("a\tb\n%s\n", evil); err != nil || terminalObeys(out.String()) || !strings.HasPrefix(out.String(), "a\tb\n") || !strings.HasSuffix(out.String(), "\n") {
		t.Errorf("Printf: %v, %q", err, out.String())
	}
	o.Note("%s", evil)
	if terminalObeys(errs.String()) {
		t.Errorf("Note: %q", errs.String())
	}
	if text := Plain(errors.New(evil)); terminalObeys(text) {
		t.Errorf("Plain: %q", text)
	}
	for _, s := range []string{string(AppendJSON(nil, every.String())), jsonOf(t, every.String())} {
		var back string
		// Formatting characters are left to readers of JSON.
		if strings.ContainsFunc(strings.TrimSuffix(s, "\n"), unicode.IsControl) {
			t.Errorf("JSON: %q", s)
		}
		if err := json.Unmarshal([]byte(s), &back); err != nil || back != string([]rune(every.String())) {
			t.Errorf("JSON does not come back: %v", err)
		}
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	var out bytes.Buffer
	if err := (&Output{Stdout: &out}).WriteJSON(v); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
