package s3rdma

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

func withDC(c *ServerConfig) { c.DCKey = DefaultDCKey }

func (w *world) dcTransport() *Transport {
	return w.transport(func(c *TransportConfig) { c.DCKey = DefaultDCKey })
}

// TestDC moves objects with cuObject's protocol.
func TestDC(t *testing.T) {
	w := newWorld(t, devices["mlx5"])
	_, url := w.serve(withDC)
	c := w.dcTransport()
	sizes := []int{1, 64 << 10, 1<<20 + 1, 4 << 20}
	for i, n := range sizes {
		want := fill(n, i)
		resp, _ := w.do(c, w.request(http.MethodPut, url+"/b/a%20key?x-id=PutObject", want, "X-Amz-Meta-Colour", "red"))
		if resp.StatusCode != http.StatusOK || resp.Header.Get("ETag") != etag(want) || !bytes.Equal(w.object("b/a key"), want) {
			t.Errorf("%d bytes: %v %v", n, resp.Status, resp.Header)
		}
		buf := make([]byte, n+1)
		resp, got := w.do(c, w.request(http.MethodGet, url+"/b/a%20key", buf, checksumMode, "ENABLED"))
		if resp.StatusCode != http.StatusOK || resp.ContentLength != int64(n) || resp.Header.Get("ETag") != etag(want) || !bytes.Equal(got, want) || !bytes.Equal(buf[:n], want) ||
			resp.Header.Get(checksumCRC64) != crc64Of(want) {
			t.Errorf("%d bytes: %v %v", n, resp.Status, resp.Header)
		}
	}
	object := w.object("b/a key")
	resp, got := w.do(c, w.request(http.MethodGet, url+"/b/a%20key", make([]byte, 10), "Range", "bytes=100-109"))
	if resp.StatusCode != http.StatusPartialContent || resp.Header.Get("Content-Range") != "bytes 100-109/4194304" || !bytes.Equal(got, object[100:110]) {
		t.Errorf("%v %v", resp.Status, resp.Header)
	}
	if resp, _ := w.do(c, w.request(http.MethodGet, url+"/b/a%20key", make([]byte, 10), "Range", "bytes=4194304-4194305")); resp.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		t.Error(resp.Status)
	}
	if resp, _ := w.do(c, w.request(http.MethodGet, url+"/b/other", make([]byte, 10))); resp.StatusCode != http.StatusNotFound {
		t.Error(resp.Status)
	}
	if s := c.Stats(); s.Puts != 4 || s.Gets != 5 || s.Plain != 0 || s.Failed != 2 {
		t.Errorf("%+v", s)
	}
	// The object does not fit, so the server sends it by HTTP.
	if _, got := w.do(c, w.request(http.MethodGet, url+"/b/a%20key", make([]byte, 10))); !bytes.Equal(got, object) || c.Stats().Plain != 1 {
		t.Errorf("%d bytes, %+v", len(got), c.Stats())
	}
	for i := range 2 {
		if left := strings.Join(w.fabric.Host(i).Device(0).Objects(), " "); strings.Contains(left, "MR") || strings.Contains(left, "QP") || strings.Contains(left, "SRQ") {
			t.Errorf("host %d keeps %v", i, left)
		}
	}
}

// TestDCJudgement has servers answer as those of others do, and as no server should.
func TestDCJudgement(t *testing.T) {
	w := newWorld(t, devices["mlx5"])
	data := fill(1000, 1)
	sum := crc64Of(data)
	for _, test := range []struct {
		name   string
		method string
		status int
		header []string // of the answer to a request with a token
		want   string   // rdma, plain, or the error's text
	}{
		{"ignores the token", "PUT", 200, nil, "plain"},
		{"ignores the token, checks the sum", "PUT", 400, nil, "plain"},
		{"AIStor", "PUT", 200, []string{checksumCRC64, sum}, "rdma"},
		{"another sum", "PUT", 200, []string{checksumCRC64, crc64Of(nil)}, "plain"},
		{"versitygw", "PUT", 200, []string{headerReply, "200"}, "rdma"},
		{"all bytes", "PUT", 200, []string{headerReply, "200", headerBytes, "1000"}, "rdma"},
		{"fewer bytes", "PUT", 200, []string{headerReply, "200", headerBytes, "999"}, "plain"},
		{"a strange number of bytes", "PUT", 200, []string{headerReply, "200", headerBytes, "-1000"}, "plain"},
		{"hipObject's form", "PUT", 200, []string{headerReply, "200:00"}, "rdma"},
		{"declined", "PUT", 200, []string{headerReply, "501"}, "plain"},
		{"declined by status", "PUT", 501, nil, "plain"},
		{"versitygw", "GET", 200, []string{headerReply, "200", headerBytes, "1000"}, "rdma"},
		{"MinIO", "GET", 206, []string{headerReply, "206", headerBytes, "999"}, "rdma"},
		{"ignores the token", "GET", 200, nil, "body"},
		{"declined", "GET", 200, []string{headerReply, "501"}, "body"},
		{"declined by status", "GET", 501, nil, "plain"},
		{"too many bytes", "GET", 200, []string{headerReply, "200", headerBytes, "1001"}, "1001"},
		{"no bytes", "GET", 200, []string{headerReply, "200"}, "occurs 0 times"},
		{"another sum", "GET", 200, []string{headerReply, "200", headerBytes, "1000", checksumCRC64, sum}, "checksum"},
	} {
		t.Run(test.method+" "+test.name, func(t *testing.T) {
			w.put("b/k", data)
			url := w.listen(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				text := r.Header.Get(headerToken)
				if text == "" {
					w.ServeHTTP(rw, r)
					return
				}
				if token, err := parseDCToken(text); err != nil || len(text) != 81 || token.length != 1000 || r.ContentLength > 0 || alice.Verify(r) != nil ||
					r.Header.Get(headerSHA256) != unsignedPayload || (r.Method == "PUT") != (r.Header.Get(checksumCRC64) == sum) {
					t.Error(token, err, r.ContentLength, r.Header)
				}
				for i := 0; i < len(test.header); i += 2 {
					rw.Header().Set(test.header[i], test.header[i+1])
				}
				rw.WriteHeader(test.status)
				if test.want == "body" {
					_, _ = rw.Write(data)
				}
				if r.Method == "PUT" && test.want != "rdma" {
					w.put("b/k", []byte{})
				}
			}))
			c := w.dcTransport()
			b := bytes.Clone(data)
			if test.method == "GET" {
				clear(b)
			}
			resp, err := c.RoundTrip(w.request(test.method, url+"/b/k", b))
			if err != nil {
				if !strings.Contains(err.Error(), test.want) || errors.As(err, new(declined)) {
					t.Errorf("%v, want %s", err, test.want)
				}
				return
			}
			defer resp.Body.Close()
			s := c.Stats()
			if plain := test.want == "plain" || test.want == "body"; (s.Plain == 1) != plain || (s.Puts+s.Gets == 1) == plain || (s.Reason != nil) != plain {
				t.Errorf("%+v, want %s", s, test.want)
			}
			if test.method == "PUT" && !bytes.Equal(w.object("b/k"), data) {
				t.Errorf("%d bytes are stored", len(w.object("b/k")))
			}
		})
	}
}

// TestDCRange checks that a server can't report more bytes than the range has.
func TestDCRange(t *testing.T) {
	w := newWorld(t, devices["mlx5"])
	for _, reported := range []string{"11", "10"} {
		url := w.listen(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if token, err := parseDCToken(r.Header.Get(headerToken)); err != nil || token.length != 10 {
				t.Errorf("%+v, %v", token, err)
			}
			rw.Header().Set(headerReply, "206")
			rw.Header().Set(headerBytes, reported)
			rw.WriteHeader(http.StatusPartialContent)
		}))
		resp, err := w.dcTransport().RoundTrip(w.request(http.MethodGet, url+"/b/k", make([]byte, 1000), "Range", "bytes=90-99"))
		if reported == "11" && !errors.Is(err, ErrProtocol) || reported == "10" && (err != nil || resp.ContentLength != 10) {
			t.Errorf("%s bytes: %v, %v", reported, resp, err)
		}
	}
}

// TestDCChecksum puts an object with the caller's checksum, beside which S3 refuses another.
func TestDCChecksum(t *testing.T) {
	w := newWorld(t, devices["mlx5"])
	s, _ := w.serve(withDC)
	data := fill(1000, 1)
	for name, sum := range checksums {
		url := w.listen(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if sums := checksumsOf(r.Header); len(sums) != 1 || sums[0] != name {
				t.Errorf("%s: %v", name, sums)
			}
			s.ServeHTTP(rw, r)
		}))
		c := w.dcTransport()
		w.do(c, w.request(http.MethodPut, url+"/b/"+name, data, name, sum(data)))
		if !bytes.Equal(w.object("b/"+name), data) || c.Stats().Puts != 1 {
			t.Errorf("%s: %+v", name, c.Stats())
		}
	}
}

// TestDCPeer has a client like those in C talk to the server, and send tokens that are wrong.
func TestDCPeer(t *testing.T) {
	w := newWorld(t, devices["mlx5"])
	_, url := w.serve(func(c *ServerConfig) { c.DCKey, c.MaxTransfer = 0x1122334455667788, 2000 })
	side, err := newSide(Link{PD: w.pds[0]})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, side.channel)
	const all = verbs.AccessRemoteRead | verbs.AccessRemoteWrite
	target, err := side.openTarget(all, 0x1122334455667788)
	if err != nil {
		t.Fatal(err)
	}
	other, err := side.openTarget(all, 5)
	if err != nil {
		t.Fatal(err)
	}
	buf := fill(1000, 2)
	want := bytes.Clone(buf)
	mr, err := w.pds[0].RegMR(buf, all|verbs.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(target.close(), other.close(), mr.Close()); err != nil {
			t.Error(err)
		}
	})
	good := dcToken{addr: mr.Addr(), length: 1000, rkey: mr.RKey(), target: target.qp.QPN(), gid: target.gid.GID}
	text := good.String()
	token := func(change func(*dcToken)) string {
		t := good
		change(&t)
		return t.String()
	}
	ask := func(method, token string, header ...string) *http.Response {
		t.Helper()
		r, err := http.NewRequest(method, url+"/b/k", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(headerToken, token)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		if err := alice.Sign(r); err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	for _, test := range []struct {
		name, token string
		status      int
		header      []string
	}{
		{"80 characters", text[:80], 400, nil},
		{"82 characters", text + "0", 400, nil},
		{"82 characters, of which the last is a colon", text + ":", 400, nil},
		{"a length beyond 4 GiB", text[:17] + "1" + text[17:], 400, nil},
		{"a part beyond 4 GiB", text + ":" + text[:16] + ":0000000100000000", 400, nil},
		{"a wrong digit", "g" + text[1:], 400, nil},
		{"colons elsewhere", strings.Replace(text, ":", "0", 1), 400, nil},
		{"no GID", text[:47] + "0" + text[48:], 400, nil},
		{"GID 0", text[:49] + strings.Repeat("0", 32), 400, nil},
		{"an address that wraps", "ffffffffffffffff" + text[16:], 400, nil},
		{"no bytes", token(func(t *dcToken) { t.length = 0 }), 400, nil},
		{"too many bytes", token(func(t *dcToken) { t.length = 2001 }), 413, nil},
		{"target 0", token(func(t *dcToken) { t.target = 0 }), 400, nil},
		{"a dead target", token(func(t *dcToken) { t.target ^= 0x8000 }), 502, nil},
		{"a target with another key", token(func(t *dcToken) { t.target = other.qp.QPN() }), 502, nil},
		{"another region", token(func(t *dcToken) { t.rkey ^= 0x100 }), 502, nil},
		{"beyond the region", token(func(t *dcToken) { t.addr++ }), 502, nil},
		{"a part beyond the end", text + ":" + text[:16] + ":00000000000003e9", 400, nil},
		{"a part before the beginning", text + ":0000000000000001:0000000000000001", 400, nil},
		{"a short part", text + ":1:1", 400, nil},
		{"another agent", text, 400, []string{headerAgent, "else"}},
		{"another sum", text, 400, []string{checksumCRC64, crc64Of(nil)}},
		{"a sum that can't be checked", text, 501, []string{checksumPrefix + "Sha256", "x"}},
	} {
		if resp := ask(http.MethodPut, test.token, test.header...); resp.StatusCode != test.status || moved(resp.Header) {
			t.Errorf("%s: %s, want %d", test.name, resp.Status, test.status)
		}
	}
	if w.object("b/k") != nil {
		t.Error("something was stored")
	}
	for form, n := range map[string]int{text: 1000, text + ";": 1000, strings.ToUpper(text): 1000, text + ":" + text[:16] + ":0000000000000010": 16} {
		if resp := ask(http.MethodPut, form, headerAgent, agent); resp.StatusCode != http.StatusOK || !moved(resp.Header) || !bytes.Equal(w.object("b/k"), want[:n]) {
			t.Errorf("%s: %s", form, resp.Status)
		}
	}
	w.put("b/k", want[:500])
	clear(buf)
	if resp := ask(http.MethodGet, text); resp.StatusCode != http.StatusOK || resp.Header.Get(headerBytes) != "500" || !bytes.Equal(buf[:500], want[:500]) || buf[500] != 0 {
		t.Error(resp.Status, resp.Header)
	}
}

// TestDCDeadServer has a server die after it has got the token, and after it has the data of a PUT. The client may not call the object stored.
func TestDCDeadServer(t *testing.T) {
	w := newWorld(t, devices["mlx5"])
	s, _ := w.serve(withDC)
	w.put("b/k", fill(1000, 0))
	for _, moves := range []bool{false, true} {
		url := w.listen(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if moves {
				s.ServeHTTP(httptest.NewRecorder(), r)
			}
			panic(http.ErrAbortHandler)
		}))
		c := w.dcTransport()
		for _, method := range []string{http.MethodPut, http.MethodGet} {
			if resp, err := c.RoundTrip(w.request(method, url+"/b/k", make([]byte, 1000))); err == nil {
				t.Errorf("%s: %s", method, resp.Status)
			}
		}
		if s := c.Stats(); s.Failed != 2 || s.Plain+s.Puts+s.Gets != 0 {
			t.Errorf("%+v", s)
		}
	}
	if left := strings.Join(w.fabric.Host(0).Device(0).Objects(), " "); strings.Contains(left, "MR") || strings.Contains(left, "QP") {
		t.Errorf("the client keeps %v", left)
	}
}

// TestDCAborted has a client give up while the server stores the data of its PUT.
func TestDCAborted(t *testing.T) {
	w := newWorld(t, devices["mlx5"])
	storing := make(chan struct{})
	s, url := w.serve(func(c *ServerConfig) {
		withDC(c)
		c.Store = func(ctx context.Context, _ *Transfer, _ []byte) (*Info, error) {
			close(storing)
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	req := w.request(http.MethodPut, url+"/b/k", make([]byte, 1000))
	go func() {
		<-storing
		cancel()
	}()
	if _, err := w.dcTransport().RoundTrip(req.WithContext(WithBuffer(ctx, make([]byte, 1000)))); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-w.ended
	if err := w.ends[0]; statusOf(err).Status != http.StatusRequestTimeout {
		t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total != (usage{}) {
		t.Errorf("%+v", s.total)
	}
}

// TestDCDeclined asks a server without DC, whose next handler knows nothing of tokens.
func TestDCDeclined(t *testing.T) {
	w := newWorld(t, devices["mlx5"])
	_, url := w.serve(nil)
	c := w.dcTransport()
	data := fill(1000, 0)
	w.do(c, w.request(http.MethodPut, url+"/b/k", data))
	_, got := w.do(c, w.request(http.MethodGet, url+"/b/k", make([]byte, 1000)))
	if s := c.Stats(); !bytes.Equal(w.object("b/k"), data) || !bytes.Equal(got, data) || s.Plain != 2 {
		t.Errorf("%+v", s)
	}
}

// TestDCRefused checks that Done reports transfers that are refused.
func TestDCRefused(t *testing.T) {
	w := newWorld(t, devices["mlx5"])
	for _, refuse := range []func(*ServerConfig){
		func(c *ServerConfig) { c.AllowPeer = func(*http.Request, netip.Addr) error { return fs.ErrPermission } },
		func(c *ServerConfig) { c.MaxSessions = -1 },
	} {
		_, url := w.serve(func(c *ServerConfig) { withDC(c); refuse(c) })
		w.do(w.dcTransport(), w.request(http.MethodPut, url+"/b/k", fill(1000, 0)))
	}
	if len(w.ends) != 2 || !errors.Is(w.ends[0], fs.ErrPermission) || w.ends[1] == nil {
		t.Error(w.ends)
	}
}

// TestDCUnsupported makes both sides on a device without DC.
func TestDCUnsupported(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	_, err1 := NewTransport(&TransportConfig{Link: Link{PD: w.pds[0]}, Sign: alice.Sign, DCKey: 1})
	_, err2 := NewServer(&ServerConfig{Link: Link{PD: w.pds[0]}, Authorize: w.authorize, DCKey: 1})
	for _, err := range []error{err1, err2} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
	}
}

// TestDCToken compares a token with one that was written by hand.
func TestDCToken(t *testing.T) {
	const want = "0000000abcdef000:00100000:12345678:0000:abcdef:1:00000000000000000000ffffc0000201"
	token := dcToken{addr: 0xabcdef000, length: 1 << 20, rkey: 0x12345678, target: 0xabcdef, gid: verbs.GIDFromAddr(netip.MustParseAddr("192.0.2.1"))}
	if got := token.String(); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	if got, err := parseDCToken(want); err != nil || got != token {
		t.Errorf("%+v, %v", got, err)
	}
}
