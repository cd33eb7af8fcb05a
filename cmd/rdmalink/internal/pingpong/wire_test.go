package pingpong

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// cAddress is an address that ibv_rc_pingpong sent.
const cAddress = "0000:000011:2ab3f9:00000000000000000000ffff0a510001\x00"

var cAddressRead = addr{qpn: 0x11, psn: 0x2ab3f9, gid: verbs.GID{10: 0xff, 0xff, 10, 0x51, 0, 1}}

func TestPingpongAddr(t *testing.T) {
	for text, want := range map[string]addr{
		cAddress: cAddressRead,
		"ffff:ffffff:ffffff:ffffffffffffffffffffffffffffffff\x00": {0xffff, 0xffffff, 0xffffff, verbs.GID(bytes.Repeat([]byte{0xff}, 16))},
		"0000:000000:000000:00000000000000000000000000000000\x00": {},
	} {
		got, err := parseAddr([]byte(text))
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if back := string(want.append(nil)); back != text || len(back) != addrSize {
			t.Errorf("%+v: %q", want, back)
		}
	}
}

func TestPingpongAddrBad(t *testing.T) {
	for _, text := range []string{
		"", "\x00", "GET / HTTP/1.1\r\n", cAddress[:51], cAddress[1:], cAddress + "0", strings.Repeat(":", 51) + "\x00",
		strings.Replace(cAddress, "\x00", "0", 1), strings.Replace(cAddress, "0011", "+011", 1), strings.Replace(cAddress, "0011", "0x11", 1),
		strings.Replace(cAddress, "0a51", "0g51", 1), "00000:00011" + cAddress[11:], "0000 000011" + cAddress[11:], strings.Repeat("\xff", 52),
	} {
		if a, err := parseAddr([]byte(text)); !errors.Is(err, errNotPingpong) || a != (addr{}) {
			t.Errorf("%q: %+v, %v", text, a, err)
		}
	}
}

// FuzzPingpongAddr checks that an accepted address equals its encoding.
func FuzzPingpongAddr(f *testing.F) {
	for _, text := range []string{cAddress, cAddress[:51], "done\x00", "", strings.ToUpper(cAddress), strings.Repeat(":", 52)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if a, err := parseAddr(text); err == nil && !bytes.Equal(a.append(nil), bytes.ToLower(text)) {
			t.Errorf("%q: %+v", text, a)
		}
	})
}
