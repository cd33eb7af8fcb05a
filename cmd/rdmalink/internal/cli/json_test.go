package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestAppendJSON: any bytes become a string of JSON, and come back, but for
// what is not UTF-8.
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
