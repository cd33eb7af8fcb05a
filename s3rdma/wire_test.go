package s3rdma

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/verbs"
)

// TestToken compares a token with one that was written by hand.
func TestToken(t *testing.T) {
	const want = "01" + "56341200" + "00000000000000000000ffffc0000201" + "78563412" + "00f0debc0a000000" + "0000100000000000" + "01" + "0000"
	token := token{qpn: 0x123456, gid: verbs.GIDFromAddr(netip.MustParseAddr("192.0.2.1")), rkey: 0x12345678, addr: 0xabcdef000, length: 1 << 20, port: 1}
	if got := token.String(); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	for _, form := range []string{want, strings.ToUpper(want), want + ":1000:20"} {
		if got, err := parseToken(form); err != nil || got != token {
			t.Errorf("%s: %+v, %v", form, got, err)
		}
	}
}

// TestSignature signs the example of Amazon's documentation.
func TestSignature(t *testing.T) {
	c := &Credentials{AccessKey: "AKIAIOSFODNN7EXAMPLE", SecretKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
	r, err := http.NewRequest(http.MethodGet, "https://examplebucket.s3.amazonaws.com/test.txt", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Range", "bytes=0-9")
	r.Header.Set(headerSHA256, emptySHA256)
	r.Header.Set(headerDate, "20130524T000000Z")
	got := c.signature(r, c.scope("20130524"), []string{"host", "range", "x-amz-content-sha256", "x-amz-date"})
	if want := "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestVerify changes a signed request.
func TestVerify(t *testing.T) {
	for name, change := range map[string]func(r *http.Request){
		"nothing":         func(*http.Request) {},
		"the path":        func(r *http.Request) { r.URL.Path = "/b/l" },
		"the query":       func(r *http.Request) { r.URL.RawQuery = "a=c" },
		"a header":        func(r *http.Request) { r.Header.Set(headerSize, "2") },
		"another header":  func(r *http.Request) { r.Header.Set(headerOffset, "2") },
		"a second header": func(r *http.Request) { r.Header.Add(headerSize, "1") },
		"the host":        func(r *http.Request) { r.Host = "other" },
		"the method":      func(r *http.Request) { r.Method = http.MethodPut },
		"the time":        func(r *http.Request) { r.Header.Set(headerDate, "20130524T000000Z") },
		"no time":         func(r *http.Request) { r.Header.Del(headerDate) },
		"the signature":   func(r *http.Request) { r.Header.Set("Authorization", r.Header.Get("Authorization")+"0") },
		"no signature":    func(r *http.Request) { r.Header.Del("Authorization") },
		"the key":         func(r *http.Request) { _ = bob.Sign(r) },
	} {
		r, err := http.NewRequest(http.MethodPost, "http://host/b/k%20?a=b&c", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(headerSize, "1")
		if err := alice.Sign(r); err != nil {
			t.Fatal(err)
		}
		change(r)
		if err := alice.Verify(r); (err == nil) != (name == "nothing") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzHeaders parses headers of a peer. What was parsed must come back when it is sent again.
func FuzzHeaders(f *testing.F) {
	token := token{qpn: 0x123456, gid: verbs.GIDFromAddr(netip.MustParseAddr("192.0.2.1")), rkey: 7, addr: 8, length: 9, port: 1}
	h := make(http.Header)
	(&prepare{token: token, psn: 1, cookie: 2, op: "GET", target: "/b/k?a=b", size: 3, offset: 4}).set(h)
	add := func() { f.Add(text(h)); clear(h) }
	add()
	(&prepared{token: token, session: strings.Repeat("ab", 16), psn: 1, addr: 2, rkey: 3, target: "/b/k", objectSize: 4}).set(h)
	add()
	(&ready{session: strings.Repeat("ab", 16), cookie: 1, qpn: 2, addr: 3, rkey: 4}).set(h)
	add()
	(&result{cookie: 1, bytes: 2, etag: "x", version: "y", checksum: "rosUhgp5mIg="}).set(h)
	add()
	dc := dcToken{addr: 1, length: 2, rkey: 3, target: 4, gid: token.gid}
	f.Add(dc.String() + ":0000000000000002:0000000000000001")
	f.Fuzz(func(t *testing.T, s string) {
		if token, err := parseDCToken(s); err == nil {
			if again, err := parseDCToken(token.String()); err != nil || again != token {
				t.Errorf("%q: %+v, then %+v, %v", s, token, again, err)
			}
		}
		h := make(http.Header)
		for line := range strings.Lines(s) {
			if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ":"); ok {
				h.Add(name, value)
			}
		}
		again(t, h, parsePrepare, (*prepare).set)
		for _, op := range []string{http.MethodGet, http.MethodPut} {
			parse := func(h http.Header) (*prepared, error) {
				p, err := parsePrepared(h, op)
				if err == nil {
					p.connected = true // set always says so
				}
				return p, err
			}
			again(t, h, parse, (*prepared).set)
		}
		again(t, h, parseReady, (*ready).set)
		again(t, h, parseResult, (*result).set)
		if bucket, key, _, err := parseTarget(s); err == nil && (bucket == "" || key == "" || strings.Contains(bucket, "/")) {
			t.Errorf("%q: bucket %q, key %q", s, bucket, key)
		}
	})
}

func text(h http.Header) string {
	var b strings.Builder
	for name := range h {
		b.WriteString(name + ":" + h.Get(name) + "\n")
	}
	return b.String()
}

func again[T any](t *testing.T, h http.Header, parse func(http.Header) (*T, error), set func(*T, http.Header)) {
	v, err := parse(h)
	if err != nil {
		return
	}
	sent := make(http.Header)
	set(v, sent)
	back, err := parse(sent)
	if err != nil {
		t.Fatalf("%v\n%q\n%q", err, h, sent)
	}
	if diff := cmp.Diff(v, back, cmp.AllowUnexported(prepare{}, prepared{}, ready{}, result{}, token{})); diff != "" {
		t.Errorf("%s\n%q\n%q", diff, h, sent)
	}
}
