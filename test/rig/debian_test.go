//go:build linux

package rig

import "testing"

func TestFindMirror(t *testing.T) {
	for name, c := range map[string]struct{ targets, want string }{
		"plain":         {"Debian|Debian|http://deb.debian.org/debian/\nDebian|Debian-Security|http://deb.debian.org/debian-security/\n", "http://deb.debian.org/debian/"},
		"mirror":        {"Google|cloud-sdk|https://packages.example.com/apt/\nDebian|Debian|https://mirror.example.com/debian/\n", "https://mirror.example.com/debian/"},
		"installer":     {"Debian|Debian|cdrom://Debian/\nDebian|Debian|http://ftp.example.com/debian/\n", "http://ftp.example.com/debian/"},
		"no lists":      {"", ""},
		"security only": {"Debian|Debian-Security|http://deb.debian.org/debian-security/\n", ""},
		"not updated":   {"$(ORIGIN)|$(LABEL)|http://deb.debian.org/debian/\n", ""},
	} {
		got, err := findMirror(c.targets)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
}

func TestSuiteLine(t *testing.T) {
	const want = "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] https://mirror.example.com/debian/ trixie-backports main\n"
	if got := suiteLine("https://mirror.example.com/debian/", "trixie-backports"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	const source = "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] https://mirror.example.com/debian/ sid main\n"
	if got := sourceLine("https://mirror.example.com/debian/", "sid"); got != source {
		t.Errorf("%q, want %q", got, source)
	}
}
