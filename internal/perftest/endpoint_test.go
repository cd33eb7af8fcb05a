package perftest

import (
	"strings"
	"testing"
)

var aQP = Endpoint{
	LID: 0x12, OutReads: 0x80, QPN: 0xabcdef, PSN: 0x123456, RKey: 0xdeadbeef, VAddr: 0x7fa6233d5000,
	GID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 13: 84, 15: 1}, SRQN: 7,
}

const (
	aPlainQP = "0012:0080:abcdef:123456:deadbeef:00007fa6233d5000:00000007\x00"
	aGIDQP   = "0012:0080:abcdef:123456:deadbeef:00007fa6233d5000:00:00:00:00:00:00:00:00:00:00:ff:ff:0a:54:00:01:00000007:\x00"
)

func TestEndpoint(t *testing.T) {
	for text, gid := range map[string]bool{aPlainQP: false, aGIDQP: true} {
		if got := string(aQP.append(nil, gid)); got != text {
			t.Errorf("%q, want %q", got, text)
		}
		want := aQP
		if !gid {
			want.GID = [16]byte{}
		}
		if got, err := parseEndpoint([]byte(text), gid); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for _, marked := range []bool{false, true} {
		if got, err := parseStruct(aQP.appendStruct(nil, marked), marked); err != nil || got != aQP {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// TestEndpointWrong decodes endpoints with one mistake each.
func TestEndpointWrong(t *testing.T) {
	for _, c := range []struct {
		text string
		gid  bool
	}{
		{"", true},
		{aPlainQP, true},
		{aGIDQP, false},
		{aGIDQP[:len(aGIDQP)-1], true},
		{aGIDQP + "\x00", true},
		{strings.Replace(aGIDQP, "abcdef", "abcdeg", 1), true},
		{strings.Replace(aGIDQP, "0012", "+012", 1), true},
		{strings.Replace(aGIDQP, "0012", "0_12", 1), true},
		{strings.Replace(aGIDQP, "12:", "12 ", 1), true},
		{strings.Replace(aGIDQP, ":0a", ":0g", 1), true},
		{strings.TrimSuffix(aGIDQP, "\x00") + "x", true},
		{strings.Replace(aPlainQP, "\x00", "x", 1), false},
	} {
		if e, err := parseEndpoint([]byte(c.text), c.gid); err == nil {
			t.Errorf("%q: %+v", c.text, e)
		}
	}
	good := aQP.appendStruct(nil, false)
	for _, at := range []int{0, 1, 4, 5, 8, 12} { // more than 16, 16, 24 and 24 bits
		bad := append([]byte(nil), good...)
		bad[at] = 1
		if e, err := parseStruct(bad, false); err == nil {
			t.Errorf("byte %d: %+v", at, e)
		}
	}
	for _, n := range []int{0, structSize - 1, structSize + 1, markedSize} {
		if _, err := parseStruct(make([]byte, n), false); err == nil {
			t.Errorf("%d bytes taken for a struct", n)
		}
	}
}
