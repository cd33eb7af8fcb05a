package debug

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestWords checks which words turn on what, and that unknown ones are reported once.
func TestWords(t *testing.T) {
	for words, want := range map[string]struct {
		on      [3]bool
		printed string
	}{
		"":                       {},
		"ioctl":                  {on: [3]bool{true, false, false}},
		"cm,netlink":             {on: [3]bool{false, true, true}},
		" ioctl, cm ,,netlink, ": {on: [3]bool{true, true, true}},
		"all,cm,\x1b[2J":         {[3]bool{false, true, false}, "goverbs: GOVERBS_DEBUG: unknown: \"all\", \"\\x1b[2J\" (want ioctl, cm or netlink, separated by commas)\n"},
	} {
		var b bytes.Buffer
		restore := Capture(&b, words)
		if got := [3]bool{Ioctl, CM, Netlink}; got != want.on || b.String() != want.printed {
			t.Errorf("%q: %v and %q, want %v and %q", words, got, b.String(), want.on, want.printed)
		}
		restore()
	}
	if Ioctl || CM || Netlink {
		t.Error("a kind is still on")
	}
}

func TestPrint(t *testing.T) {
	long := strings.Repeat("é", maxLine)
	for _, c := range []struct {
		text string
		err  error
		want string
	}{
		{"QP.CREATE", nil, `QP.CREATE: ok`},
		{"QP.CREATE", syscall.Errno(2), `QP.CREATE: ENOENT`},
		{"QP.CREATE", syscall.Errno(0xffff), `QP.CREATE: errno 65535`},
		{"GET", fmt.Errorf("no link: %w", syscall.Errno(2)), `GET: ENOENT: no link: .*`},
		{"GET", fmt.Errorf("a\nb"), `GET: a\\nb`},
		{"\x1b[2J\u202e\xff", nil, `\\x1b\[2J\\u202e\\xff: ok`},
		{long, nil, `é+…`},
	} {
		var b bytes.Buffer
		restore := Capture(&b, "")
		Print("ioctl", time.Now(), c.text, c.err)
		restore()
		line := strings.TrimSuffix(b.String(), "\n")
		want := `^goverbs: \d\d:\d\d:\d\d\.\d{6} ioctl ` + c.want
		if c.text != long {
			want += ` \([0-9.]+(ns|µs|ms|s)\)$`
		} else if len(line) > maxLine {
			t.Errorf("%d bytes", len(line))
		}
		if line == b.String() || !regexp.MustCompile(want).MatchString(line) {
			t.Errorf("%q, want %s", line, want)
		}
	}
}
