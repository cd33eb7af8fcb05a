package pingpong

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

func reporter(kind string, json bool) (*report, *bytes.Buffer) {
	var out bytes.Buffer
	p := &session{Output: cli.Output{Stdout: &out, JSON: json}, kind: kindOf(kind), options: options{iters: 1000, size: 4096}}
	return &report{Kind: kind, Role: "server", Device: "rxe0", Size: 4096, session: p, Local: []place{}, Remote: []place{}}, &out
}

// TestPingpongText checks that the output is the same as that of C's programs,
// including a stray colon.
func TestPingpongText(t *testing.T) {
	for kind, separator := range map[string]string{"rc": ",", "ud": ":"} {
		r, out := reporter(kind, false)
		addrs := []addr{cAddressRead, {lid: 0xabc, qpn: 1}}
		errs := []error{r.local(addrs), r.remote(addrs[:1])}
		r.stop(1001)
		r.Seconds = 0.5
		errs = append(errs, r.times(), r.finish(nil))
		want := `  local address:  LID 0x0000, QPN 0x000011, PSN 0x2ab3f9` + separator + ` GID ::ffff:10.81.0.1
  local address:  LID 0x0abc, QPN 0x000001, PSN 0x000000` + separator + ` GID ::
  remote address: LID 0x0000, QPN 0x000011, PSN 0x2ab3f9, GID ::ffff:10.81.0.1
8192000 bytes in 0.50 seconds = 131.07 Mbit/sec
1000 iters in 0.50 seconds = 500.00 usec/iter
`
		if diff := cmp.Diff(want, out.String()); diff != "" || errors.Join(errs...) != nil {
			t.Error(errs, diff)
		}
	}
}

func TestPingpongJSON(t *testing.T) {
	r, out := reporter("rc", true)
	if err := errors.Join(r.local([]addr{cAddressRead})); err != nil {
		t.Error(err)
	}
	r.stop(3)
	r.Seconds = 0.25
	if err := errors.Join(r.times(), r.check([]byte{1})); err == nil || r.finish(err) == nil {
		t.Error("wrong data is no failure")
	}
	const want = `{"kind":"rc","role":"server","device":"rxe0","local":[{"lid":0,"qpn":17,"psn":2798585,"gid":"::ffff:10.81.0.1"}],"remote":[],` +
		`"size":4096,"exchanges":3,"bytes":24576,"seconds":0.25,"error":"-c: invalid data in 1 of 1 pages; the client needs -c as well"}` + "\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestPingpongCheck(t *testing.T) {
	page := os.Getpagesize()
	for _, size := range []int{1, page - 1, page, page + 1, 3 * page} {
		pages := (size + page - 1) / page
		b := make([]byte, size)
		fill(b)
		r, out := reporter("rc", false)
		if err := r.check(b); err == nil || strings.Count(out.String(), "invalid data in page ") != pages {
			t.Errorf("%d bytes without marks: %v\n%s", size, err, out)
		}
		mark(b)
		if bytes.Count(b, []byte{0}) != pages {
			t.Errorf("%d bytes: %d marks", size, bytes.Count(b, []byte{0}))
		}
		r, out = reporter("rc", false)
		if err := r.check(b); err != nil || out.Len() > 0 {
			t.Errorf("%d bytes: %v\n%s", size, err, out)
		}
		b[(pages-1)*page] = 1
		if err := r.check(b); err == nil || out.String() != "invalid data in page "+string('0'+byte(pages-1))+"\n" {
			t.Errorf("%d bytes, the last page wrong: %v\n%s", size, err, out)
		}
	}
}
