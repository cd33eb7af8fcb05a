package cli

import (
	"strings"
	"testing"
)

// TestWordsAfter checks the words that may follow others by a usage line.
func TestWordsAfter(t *testing.T) {
	for args, tests := range map[string]map[string]string{
		"A [b C]... { d | e } f":           {"": "A", "x": "b d e", "x b y": "b d e", "x b y d": "f", "x e f": "", "x f": ""},
		"[DEV[/PORT] [FILTER VALUE]...]":   {"": "DEV[/PORT]", "x": "FILTER", "x y": "VALUE", "x y z": "FILTER"},
		"{off | {type | type,pid} on} [x]": {"": "off type type,pid", "o": "x", "type": "on", "type,": "on", "type on": "x"},
		"NAME[,NAME]...":                   {"": "NAME[,NAME]", "a": "NAME[,NAME]"},
		"-s|-c [OPTIONS]":                  {"": "-s -c", "-c": "OPTIONS"},
	} {
		for typed, want := range tests {
			if got := strings.Join(WordsAfter(args, strings.Fields(typed)), " "); got != want {
				t.Errorf("%s after %q: %s, want %s", args, typed, got, want)
			}
		}
	}
}
