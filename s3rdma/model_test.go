package s3rdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// modelServer is a server as strict as those in C are. It sends what versitygw sends: upper-case numbers, a token without memory, and 200
// for a PUT. It connects its queue pair only at the second request. It has one session. A test may spoil its answers.
type modelServer struct {
	w     *world
	pd    *uverbs.PD
	spoil map[string]func(h http.Header) // by the request's name
	hang  chan struct{}                  // it moves nothing and doesn't answer until this is closed
	eager bool                           // it moves nothing and reports success

	side    *side
	pair    *pair
	mr      *uverbs.MR
	buf     []byte
	peer    token
	psn     uint32
	cookie  string
	session string
	op      string
	key     string

	asked    chan struct{} // has one for each second request, with hang
	canceled chan struct{}
}

func newModelServer(w *world) *modelServer {
	s, err := newSide(Link{PD: w.pds[1]})
	if err != nil {
		w.t.Fatal(err)
	}
	closeLater(w.t, s.channel)
	m := &modelServer{w: w, pd: w.pds[1], side: s, session: strings.Repeat("ab", 16), spoil: make(map[string]func(http.Header)), asked: make(chan struct{}), canceled: make(chan struct{}, 9)}
	w.t.Cleanup(m.free)
	return m
}

func (m *modelServer) free() {
	if m.pair != nil {
		if err := errors.Join(m.pair.close(), m.mr.Close()); err != nil {
			m.w.t.Error(err)
		}
		m.pair = nil
	}
}

// one returns a header, of which there must be exactly one with n characters, or any number if n is 0.
func one(h http.Header, name string, n int) string {
	v := h[name]
	if len(v) != 1 || n > 0 && len(v[0]) != n || v[0] == "" {
		panic(fmt.Sprintf("%s: %q", name, v))
	}
	return v[0]
}

func (m *modelServer) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, pathPrefix)
	if !ok {
		m.w.t.Errorf("%s %s by plain HTTP", r.Method, r.URL)
		return
	}
	defer func() {
		if e := recover(); e != nil {
			m.w.t.Error(name, e)
			rw.WriteHeader(http.StatusBadRequest)
		}
	}()
	if err := alice.Verify(r); err != nil || r.Method != http.MethodPost || r.ContentLength > 0 || one(r.Header, headerProtocol, 0) != "hipobj-rc-v2" {
		panic(fmt.Sprint(err, r.Method, r.ContentLength))
	}
	h := rw.Header()
	h.Set("x-amz-rdma-protocol", "hipobj-rc-v2")
	status := http.StatusOK
	switch name {
	case "prepare":
		m.prepare(r.Header, h)
	case "ready":
		status = m.ready(r, h)
	case "cancel":
		one(r.Header, headerSession, 32)
		m.canceled <- struct{}{}
	default:
		panic(name)
	}
	if f := m.spoil[name]; f != nil {
		f(h)
	}
	rw.WriteHeader(status)
}

func (m *modelServer) prepare(q, h http.Header) {
	m.free()
	var err error
	if m.peer, err = parseToken(one(q, headerToken, 88)); err != nil || m.peer.rkey != 0 || m.peer.addr != 0 || m.peer.length != 0 {
		panic(fmt.Sprint(m.peer, err))
	}
	var size, offset int
	fmt.Sscanf(one(q, headerPSN, 6), "%x", &m.psn)
	fmt.Sscan(one(q, headerSize, 0), &size)
	fmt.Sscan(one(q, headerOffset, 0), &offset)
	m.cookie, m.op, m.key = one(q, headerCookie, 8), one(q, headerOp, 3), strings.TrimPrefix(one(q, headerTarget, 0), "/")
	m.buf = make([]byte, size)
	if m.op == "GET" {
		m.buf = m.buf[:copy(m.buf, m.w.object(m.key)[offset:])]
	}
	if m.mr, err = m.pd.RegMR(m.buf, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite); err != nil {
		panic(err)
	}
	if m.pair, err = m.side.open(verbs.AccessRemoteRead|verbs.AccessRemoteWrite, netip.Addr{}, 1); err != nil {
		panic(err)
	}
	answer := token{qpn: m.pair.qp.QPN(), gid: m.pair.gid.GID, port: 1}
	h.Set("x-amz-rdma-reply", "200:"+strings.ToUpper(answer.String()))
	h.Set("x-amz-rdma-session", m.session)
	h.Set("x-amz-rdma-psn", fmt.Sprintf("%06X", m.pair.psn))
	h.Set("x-amz-rdma-qpn", hexOf(uint64(answer.qpn)))
	h.Set("x-amz-rdma-mr-addr", hexOf(m.mr.Addr()))
	h.Set("x-amz-rdma-mr-rkey", hexOf(uint64(m.mr.RKey())))
}

func (m *modelServer) ready(r *http.Request, h http.Header) int {
	q := r.Header
	if one(q, headerSession, 32) != m.session || one(q, headerCookie, 8) != m.cookie || one(q, headerQPN, 0) != hexOf(uint64(m.peer.qpn)) {
		panic("another session")
	}
	var addr uint64
	var rkey, cookie uint32
	fmt.Sscanf(m.cookie, "%x", &cookie)
	fmt.Sscanf(one(q, headerAddr, 0), "%x", &addr)
	fmt.Sscanf(one(q, headerKey, 0), "%x", &rkey)
	if m.hang != nil {
		m.asked <- struct{}{}
		<-m.hang
		return http.StatusRequestTimeout
	}
	if !m.eager {
		if err := m.move(r.Context(), addr, rkey, cookie); err != nil {
			m.w.t.Log(err)
			return http.StatusBadGateway
		}
	}
	h.Set("x-amz-rdma-cookie", strings.ToUpper(m.cookie))
	h.Set("x-amz-rdma-bytes-transferred", fmt.Sprint(len(m.buf)))
	h.Set("x-amz-rdma-etag", etag(m.buf))
	return http.StatusOK
}

func (m *modelServer) move(ctx context.Context, addr uint64, rkey, cookie uint32) error {
	if m.op == "PUT" {
		if err := m.pair.expect(); err != nil {
			return err
		}
	}
	if err := m.pair.connect(&m.peer, m.psn); err != nil {
		return err
	}
	if m.op == "GET" {
		if err := m.pair.write(m.mr, len(m.buf), addr, rkey, cookie); err != nil {
			return err
		}
		_, err := m.pair.wait(ctx)
		return err
	}
	n, err := m.pair.arrival(ctx, cookie)
	if err == nil && int(n) != len(m.buf) {
		err = fmt.Errorf("%d bytes of %d", n, len(m.buf))
	}
	if err == nil {
		m.w.put(m.key, bytes.Clone(m.buf))
	}
	return err
}

// TestModelServer has the client talk to a server like those in C.
func TestModelServer(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		url := w.listen(newModelServer(w))
		c := w.transport(nil)
		want := fill(200000, 9)
		resp, _ := w.do(c, w.request(http.MethodPut, url+"/b/k", want))
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Etag") != etag(want) || !bytes.Equal(w.object("b/k"), want) {
			t.Errorf("%v %v", resp.Status, resp.Header)
		}
		for n, status := range map[int]int{199999: http.StatusPartialContent, 200000: http.StatusPartialContent, 200001: http.StatusOK} {
			buf := make([]byte, n)
			resp, got := w.do(c, w.request(http.MethodGet, url+"/b/k", buf))
			if m := min(n, len(want)); resp.StatusCode != status || !bytes.Equal(got, want[:m]) {
				t.Errorf("%d: %v, %d bytes", n, resp.Status, len(got))
			}
		}
		if s := c.Stats(); s.Puts != 1 || s.Gets != 3 || s.Plain+s.Failed != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestFamily has a server whose address is IPv6, while the client's first choice is IPv4.
func TestFamily(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	m := newModelServer(w)
	m.side.GID = &uverbs.GIDChoice{IPv6: true}
	url := w.listen(m)
	c := w.transport(nil)
	for range 2 {
		w.do(c, w.request(http.MethodPut, url+"/b/k", fill(1000, 0)))
	}
	if s := c.Stats(); s.Puts != 2 || s.Failed != 0 || len(m.canceled) != 1 {
		t.Errorf("%+v, %d cancels", s, len(m.canceled))
	}
}

// TestIgnoredQuery checks that a part of a multipart upload does not replace the object, with a server that ignores queries.
func TestIgnoredQuery(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	m := newModelServer(w)
	url := w.listen(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, pathPrefix) {
			m.ServeHTTP(rw, r)
			return
		}
		w.ServeHTTP(rw, r)
	}))
	c := w.transport(nil)
	w.do(c, w.request(http.MethodPut, url+"/b/k?partNumber=1&uploadId=u", []byte("part")))
	<-m.canceled
	if s := c.Stats(); s.Plain != 1 || !strings.Contains(s.Reason.Error(), "ignores queries") || w.object("b/kpartNumber=1&uploadId=u") != nil {
		t.Errorf("%+v", s)
	}
	if w.do(c, w.request(http.MethodPut, url+"/b/k?x-id=PutObject", []byte("whole"))); c.Stats().Puts != 1 || string(w.object("b/k")) != "whole" {
		t.Errorf("%+v", c.Stats())
	}
}

// TestLies has a server answer what is not true. No request may succeed.
func TestLies(t *testing.T) {
	set := func(name, value string) func(http.Header) { return func(h http.Header) { h.Set(name, value) } }
	other := token{qpn: 77, gid: verbs.GIDFromAddr(netip.MustParseAddr("198.51.100.9"))}
	six := token{qpn: 77, gid: verbs.GIDFromAddr(netip.MustParseAddr("fd00::1"))}
	for _, test := range []struct {
		name, at string
		spoil    func(http.Header)
	}{
		{"a token of 87 digits", "prepare", set(headerReply, "200:"+other.String()[1:])},
		{"a token of another length", "prepare", set(headerReply, "200:"+other.String()+"00")},
		{"a reply of 500", "prepare", set(headerReply, "500:"+other.String())},
		{"another queue pair in the header", "prepare", set(headerQPN, "4d")},
		{"an address of another family", "prepare", func(h http.Header) { h.Set(headerReply, "200:"+six.String()); h.Del(headerQPN) }},
		{"no session", "prepare", func(h http.Header) { h.Del(headerSession) }},
		{"a short session", "prepare", set(headerSession, "abcd")},
		{"PSN 0", "prepare", set(headerPSN, "000000")},
		{"PSN of 7 digits", "prepare", set(headerPSN, "1000000")},
		{"a negative size", "prepare", set(headerObjectSize, "-1")},
		{"two sessions", "prepare", func(h http.Header) { h.Add(headerSession, strings.Repeat("cd", 16)) }},
		{"too many bytes", "ready", set(headerBytes, "1001")},
		{"fewer bytes", "ready", set(headerBytes, "999")},
		{"2 GiB", "ready", set(headerBytes, "2147483648")},
		{"no bytes", "ready", set(headerBytes, "0")},
		{"no number", "ready", set(headerBytes, "+5")},
		{"no size", "ready", func(h http.Header) { h.Del(headerBytes) }},
		{"another cookie", "ready", set(headerCookie, "00000001")},
		{"no cookie", "ready", func(h http.Header) { h.Del(headerCookie) }},
		{"no protocol", "ready", func(h http.Header) { h.Del(headerProtocol) }},
		{"a checksum of another kind", "ready", set(headerChecksum, "CRC32 abcd")},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, devices["rxe"])
			m := newModelServer(w)
			m.spoil[test.at] = test.spoil
			url := w.listen(m)
			c := w.transport(nil)
			w.put("b/k", fill(1000, 0))
			for _, method := range []string{http.MethodGet, http.MethodPut} {
				resp, err := c.RoundTrip(w.request(method, url+"/b/k", make([]byte, 1000)))
				if err == nil && resp.StatusCode < http.StatusMultipleChoices {
					t.Errorf("%s: %v", method, resp.Status)
				}
				if v := new(verbs.Error); err != nil && !errors.As(err, &v) {
					t.Errorf("%s: %v", method, err)
				}
			}
			if s := c.Stats(); s.Failed != 2 {
				t.Errorf("%+v", s)
			}
		})
	}
	w := newWorld(t, devices["rxe"])
	w.put("b/k", fill(999, 0))
	m := newModelServer(w)
	m.spoil["prepare"] = set(headerObjectSize, "1000")
	if _, err := w.transport(nil).RoundTrip(w.request(http.MethodGet, w.listen(m)+"/b/k", make([]byte, 1000))); !errors.Is(err, ErrProtocol) {
		t.Errorf("an object with a byte too few: %v", err)
	}
	w = newWorld(t, devices["rxe"])
	m = newModelServer(w)
	m.eager = true
	c := w.transport(nil)
	c.pause = time.Hour
	if _, err := c.RoundTrip(w.request(http.MethodPut, w.listen(m)+"/b/k", make([]byte, 1000))); !errors.Is(err, ErrProtocol) {
		t.Errorf("success before the data were sent: %v", err)
	}
	w = newWorld(t, devices["rxe"])
	m = newModelServer(w)
	m.spoil["ready"] = set(headerChecksum, crc64Prefix+crc64Of([]byte("other")))
	url := w.listen(m)
	w.put("b/k", fill(1000, 0))
	if _, err := w.transport(nil).RoundTrip(w.request(http.MethodGet, url+"/b/k", make([]byte, 1000))); !errors.Is(err, syscall.EBADMSG) {
		t.Error(err)
	}
}

// TestDeadServer has a client give up while the server hangs, and a server die.
func TestDeadServer(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	w.put("b/k", make([]byte, 10))
	m := newModelServer(w)
	m.hang = make(chan struct{})
	l := httptest.NewServer(m)
	c := w.transport(nil)
	for _, method := range []string{http.MethodPut, http.MethodGet} {
		ctx, cancel := context.WithCancel(WithBuffer(t.Context(), make([]byte, 10)))
		done := make(chan error)
		go func() {
			_, err := c.RoundTrip(w.request(method, l.URL+"/b/k", make([]byte, 10)).WithContext(ctx))
			done <- err
		}()
		<-m.asked
		if method == http.MethodPut {
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			continue
		}
		l.CloseClientConnections()
		if err := <-done; err == nil {
			t.Error("a server that died has served")
		}
		cancel()
	}
	if s := c.Stats(); s.Failed != 2 {
		t.Errorf("%+v", s)
	}
	close(m.hang)
	l.Close()
}

// modelClient is a client like those in C, whose messages are as the test wants them.
type modelClient struct {
	w    *world
	url  string
	side *side
	pair *pair
	mr   *uverbs.MR
	buf  []byte
}

func newModelClient(w *world, url string, n int) *modelClient {
	s, err := newSide(Link{PD: w.pds[0]})
	if err != nil {
		w.t.Fatal(err)
	}
	closeLater(w.t, s.channel)
	c := &modelClient{w: w, url: url, side: s, buf: fill(n, 4)}
	const all = verbs.AccessRemoteRead | verbs.AccessRemoteWrite
	if c.pair, err = s.open(all, netip.Addr{}, 4); err != nil {
		w.t.Fatal(err)
	}
	if c.mr, err = w.pds[0].RegMR(c.buf, all|verbs.AccessLocalWrite); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := errors.Join(c.pair.close(), c.mr.Close()); err != nil {
			w.t.Error(err)
		}
	})
	return c
}

// prepare returns the headers of a first request.
func (c *modelClient) prepare(op string) http.Header {
	t := c.pair.token()
	return http.Header{headerProtocol: {protocol}, headerToken: {strings.ToUpper(t.String())}, headerPSN: {fmt.Sprintf("%06X", c.pair.psn)},
		headerCookie: {"C0FFEE01"}, headerOp: {op}, headerTarget: {"/b/k"}, headerSize: {fmt.Sprint(len(c.buf))}}
}

func (c *modelClient) ready(session string) http.Header {
	return http.Header{headerProtocol: {protocol}, headerSession: {session}, headerCookie: {"C0FFEE01"}, headerQPN: {hexOf(uint64(c.pair.qp.QPN()))},
		headerAddr: {hexOf(c.mr.Addr())}, headerKey: {hexOf(uint64(c.mr.RKey()))}}
}

// begin begins a transfer, and connects to the server.
func (c *modelClient) begin(op string) (*prepared, http.Header) {
	c.w.t.Helper()
	resp := c.w.post(c.url, "prepare", alice, c.prepare(op))
	p, err := parsePrepared(resp.Header, op)
	if err != nil || resp.StatusCode != http.StatusOK {
		c.w.t.Fatal(resp.Status, err)
	}
	if err := c.pair.connect(&p.token, p.psn); err != nil {
		c.w.t.Fatal(err)
	}
	return p, c.ready(p.session)
}

// TestModelClient has a client like those in C talk to the server.
func TestModelClient(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		_, url := w.serve(nil)
		c := newModelClient(w, url, 150000)
		want := bytes.Clone(c.buf)
		p, h := c.begin("PUT")
		if err := c.pair.write(c.mr, len(c.buf), p.addr, p.rkey, 0xc0ffee01); err != nil {
			t.Fatal(err)
		}
		resp := w.post(url, "ready", alice, h)
		if one(resp.Header, headerCookie, 8) != "c0ffee01" || resp.StatusCode != http.StatusNoContent || one(resp.Header, headerProtocol, 0) != protocol || one(resp.Header, headerBytes, 0) != "150000" || one(resp.Header, headerETag, 0) != etag(want) {
			t.Errorf("%v %v", resp.Status, resp.Header)
		}
		if !bytes.Equal(w.object("b/k"), want) {
			t.Error("other data arrived")
		}
		c = newModelClient(w, url, 150000)
		clear(c.buf)
		if err := c.pair.expect(); err != nil {
			t.Fatal(err)
		}
		_, h = c.begin("GET")
		resp = w.post(url, "ready", alice, h)
		if _, err := c.pair.arrival(t.Context(), 0xc0ffee01); err != nil || resp.StatusCode != http.StatusOK || !bytes.Equal(c.buf, want) {
			t.Errorf("%v %v %v", resp.Status, resp.Header, err)
		}
	})
}

// TestBadPrepare sends first requests that are refused.
func TestBadPrepare(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	s, url := w.serve(func(c *ServerConfig) { c.MaxTransfer, c.MaxStaging, c.MaxPrincipalStaging = 1<<20, 1<<20, 1<<19 })
	c := newModelClient(w, url, 100)
	digits := c.prepare("PUT")[headerToken][0]
	w.put("b/k", fill(10, 0))
	for _, test := range []struct {
		header, value string
		status        int
	}{
		{headerProtocol, "hipobj-rc-v1", http.StatusNotImplemented},
		{headerToken, digits[:87], http.StatusBadRequest},
		{headerToken, digits + "0", http.StatusBadRequest},
		{headerToken, digits + ";", http.StatusBadRequest},
		{headerToken, digits[:87] + "g", http.StatusBadRequest},
		{headerToken, "00" + digits[2:], http.StatusBadRequest}, // DC
		{headerToken, strings.Repeat("0", 88), http.StatusBadRequest},
		{headerToken, digits + ":10", http.StatusBadRequest},
		{headerToken, digits + ":10:12345678901234567", http.StatusBadRequest},
		{headerToken, digits[:10] + strings.Repeat("0", 32) + digits[42:], http.StatusBadRequest}, // GID 0
		{headerToken, digits[:2] + "FFFFFFFF" + digits[10:], http.StatusBadRequest},
		{headerPSN, "0", http.StatusBadRequest},
		{headerPSN, "000000", http.StatusBadRequest},
		{headerPSN, "1000000", http.StatusBadRequest},
		{headerCookie, "00000000", http.StatusBadRequest},
		{headerCookie, "-0000001", http.StatusBadRequest},
		{headerCookie, "", http.StatusBadRequest},
		{headerOp, "DELETE", http.StatusBadRequest},
		{headerTarget, "b/k", http.StatusBadRequest},
		{headerTarget, "/b", http.StatusBadRequest},
		{headerTarget, "/b/%zz", http.StatusBadRequest},
		{headerTarget, "/b/%00", http.StatusBadRequest},
		{headerTarget, "/b/" + strings.Repeat("k", maxTarget), http.StatusBadRequest},
		{headerSize, "0", http.StatusBadRequest},
		{headerSize, "-1", http.StatusBadRequest},
		{headerSize, "0x10", http.StatusBadRequest},
		{headerSize, "2147483648", http.StatusBadRequest},
		{headerSize, "99999999999999999999", http.StatusBadRequest},
		{headerSize, "1048577", http.StatusRequestEntityTooLarge},
		{headerSize, "524289", http.StatusRequestEntityTooLarge}, // more than a principal may have
		{headerOffset, "1", http.StatusBadRequest},               // of a PUT
		{headerOffset, "9223372036854775807", http.StatusBadRequest},
	} {
		h := c.prepare("PUT")
		h.Set(test.header, test.value)
		resp := w.post(url, "prepare", alice, h)
		if resp.StatusCode != test.status || (test.status == http.StatusNotImplemented) != (resp.Header.Get(headerStatus) == unsupported) {
			t.Errorf("%s %.100s: %s, want %d", test.header, test.value, resp.Status, test.status)
		}
		if test.header == headerOffset { // is optional
			continue
		}
		h = c.prepare("PUT")
		h.Del(test.header)
		want := http.StatusBadRequest
		if test.header == headerProtocol {
			want = http.StatusNotImplemented
		}
		if resp := w.post(url, "prepare", alice, h); resp.StatusCode != want {
			t.Errorf("without %s: %s", test.header, resp.Status)
		}
	}
	for offset, status := range map[string]int{"10": http.StatusRequestedRangeNotSatisfiable, "9223372036854775807": http.StatusBadRequest} {
		h := c.prepare("GET")
		h.Set(headerOffset, offset)
		if resp := w.post(url, "prepare", alice, h); resp.StatusCode != status {
			t.Errorf("offset %s: %s", offset, resp.Status)
		}
	}
	if resp := w.post(url, "prepare", &Credentials{AccessKey: "alice", SecretKey: "guessed"}, c.prepare("GET")); resp.StatusCode != http.StatusForbidden {
		t.Error(resp.Status)
	}
	if resp, err := http.Get(url + pathPrefix + "prepare"); err != nil || resp.StatusCode != http.StatusMethodNotAllowed {
		t.Error(resp, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sessions)+len(s.principals)+s.total.sessions+int(s.total.bytes) != 0 {
		t.Errorf("%+v", s.total)
	}
}

// TestBadReady sends second requests that are refused, and checks that nothing is stored.
func TestBadReady(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	_, url := w.serve(nil)
	for _, test := range []struct {
		name   string
		spoil  func(c *modelClient, p *prepared, h http.Header)
		who    *Credentials
		status int
	}{
		{"another cookie", func(_ *modelClient, _ *prepared, h http.Header) { h.Set(headerCookie, "C0FFEE02") }, alice, http.StatusForbidden},
		{"cookie 0", func(_ *modelClient, _ *prepared, h http.Header) { h.Set(headerCookie, "00000000") }, alice, http.StatusBadRequest},
		{"another queue pair", func(_ *modelClient, _ *prepared, h http.Header) { h.Set(headerQPN, "1") }, alice, http.StatusBadRequest},
		{"no address", func(_ *modelClient, _ *prepared, h http.Header) { h.Del(headerAddr) }, alice, http.StatusBadRequest},
		{"no key", func(_ *modelClient, _ *prepared, h http.Header) { h.Del(headerKey) }, alice, http.StatusBadRequest},
		{"an address that wraps", func(_ *modelClient, _ *prepared, h http.Header) { h.Set(headerAddr, "ffffffffffffffff") }, alice, http.StatusBadRequest},
		{"an address of 17 digits", func(_ *modelClient, _ *prepared, h http.Header) { h.Set(headerAddr, "10000000000000000") }, alice, http.StatusBadRequest},
		{"a session that is none", func(_ *modelClient, _ *prepared, h http.Header) { h.Set(headerSession, "xy") }, alice, http.StatusBadRequest},
		{"an unknown session", func(_ *modelClient, _ *prepared, h http.Header) { h.Set(headerSession, strings.Repeat("0", 32)) }, alice, http.StatusNotFound},
		{"another principal", func(*modelClient, *prepared, http.Header) {}, bob, http.StatusNotFound},
		{"other immediate data", func(c *modelClient, p *prepared, _ http.Header) {
			_ = c.pair.write(c.mr, len(c.buf), p.addr, p.rkey, 5)
		}, alice, http.StatusBadRequest},
		{"fewer bytes", func(c *modelClient, p *prepared, _ http.Header) {
			_ = c.pair.write(c.mr, len(c.buf)-1, p.addr, p.rkey, 0xc0ffee01)
		}, alice, http.StatusBadRequest},
		{"another key", func(c *modelClient, p *prepared, _ http.Header) {
			_ = c.pair.write(c.mr, len(c.buf), p.addr, p.rkey+1, 0xc0ffee01)
		}, alice, http.StatusBadGateway},
		{"beyond the end", func(c *modelClient, p *prepared, _ http.Header) {
			_ = c.pair.write(c.mr, len(c.buf), p.addr+1, p.rkey, 0xc0ffee01)
		}, alice, http.StatusBadGateway},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newModelClient(w, url, 1000)
			p, h := c.begin("PUT")
			test.spoil(c, p, h)
			if resp := w.post(url, "ready", test.who, h); resp.StatusCode != test.status {
				t.Errorf("%s, want %d", resp.Status, test.status)
			}
			for range 2 { // idempotent, also when there is none
				if resp := w.post(url, "cancel", alice, http.Header{headerProtocol: {protocol}, headerSession: {p.session}}); resp.StatusCode != http.StatusNoContent {
					t.Errorf("cancel: %s", resp.Status)
				}
			}
			if resp := w.post(url, "ready", alice, c.ready(p.session)); resp.StatusCode != http.StatusNotFound {
				t.Errorf("after cancel: %s", resp.Status)
			}
		})
	}
	if w.object("b/k") != nil {
		t.Error("something was stored")
	}
}

// TestStaging fills the memory of a principal, and that of the server.
func TestStaging(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	_, url := w.serve(func(c *ServerConfig) {
		c.MaxStaging, c.MaxPrincipalStaging, c.PrepareTimeout = 12<<10, 8<<10, time.Hour
	})
	c := newModelClient(w, url, 4096)
	for i, who := range []*Credentials{alice, alice, alice, bob, bob} {
		resp := w.post(url, "prepare", who, c.prepare("PUT"))
		if want := []int{200, 200, 429, 200, 429}[i]; resp.StatusCode != want {
			t.Errorf("%d: %s, want %d", i, resp.Status, want)
		}
	}
}

// TestReadyTwice sends the second request again while the first one stores the data.
func TestReadyTwice(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	var url string
	var h http.Header
	_, url = w.serve(func(c *ServerConfig) {
		c.Store = func(ctx context.Context, x *Transfer, data []byte) (*Info, error) {
			if resp := w.post(url, "ready", alice, h); resp.StatusCode != http.StatusConflict {
				t.Error(resp.Status)
			}
			return w.store(ctx, x, data)
		}
	})
	c := newModelClient(w, url, 1000)
	p, second := c.begin("PUT")
	h = second
	if err := c.pair.write(c.mr, len(c.buf), p.addr, p.rkey, 0xc0ffee01); err != nil {
		t.Fatal(err)
	}
	if resp := w.post(url, "ready", alice, h); resp.StatusCode != http.StatusNoContent || !bytes.Equal(w.object("b/k"), c.buf) {
		t.Error(resp.Status)
	}
}

// TestLimits fills the places of a principal, and those of the server.
func TestLimits(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	s, url := w.serve(func(c *ServerConfig) {
		c.MaxSessions, c.MaxPrincipalSessions, c.PrepareTimeout = 3, 2, time.Hour
	})
	c := newModelClient(w, url, 1000)
	var sessions []string
	for i, who := range []*Credentials{alice, alice, alice, bob, bob} {
		resp := w.post(url, "prepare", who, c.prepare("PUT"))
		if want := []int{200, 200, 429, 200, 429}[i]; resp.StatusCode != want {
			t.Errorf("%d: %s, want %d", i, resp.Status, want)
		}
		sessions = append(sessions, resp.Header.Get(headerSession))
	}
	// Bob can't end Alice's transfer, and learns nothing of it.
	if resp := w.post(url, "cancel", bob, http.Header{headerProtocol: {protocol}, headerSession: sessions[:1]}); resp.StatusCode != http.StatusNoContent {
		t.Error(resp.Status)
	}
	if resp := w.post(url, "prepare", alice, c.prepare("PUT")); resp.StatusCode != http.StatusTooManyRequests {
		t.Error(resp.Status)
	}
	w.post(url, "cancel", alice, http.Header{headerProtocol: {protocol}, headerSession: sessions[:1]})
	if resp := w.post(url, "prepare", alice, c.prepare("PUT")); resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if resp := w.post(url, "prepare", alice, c.prepare("PUT")); resp.StatusCode != http.StatusServiceUnavailable {
		t.Error(resp.Status)
	}
	if err := s.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if left := w.fabric.Host(1).Device(0).Objects(); strings.Contains(strings.Join(left, " "), "MR") || strings.Contains(strings.Join(left, " "), "QP") {
		t.Errorf("the server keeps %v", left)
	}
}

// TestDeadlines has clients that go away after each step.
func TestDeadlines(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	_, url := w.serve(func(c *ServerConfig) { c.PrepareTimeout, c.TransferTimeout = time.Hour, time.Millisecond })
	c := newModelClient(w, url, 1000)
	_, h := c.begin("PUT") // and writes nothing
	if resp := w.post(url, "ready", alice, h); resp.StatusCode != http.StatusRequestTimeout {
		t.Error(resp.Status)
	}
	<-w.ended
	_, url = w.serve(func(c *ServerConfig) { c.PrepareTimeout = time.Millisecond })
	newModelClient(w, url, 1000).begin("PUT")
	<-w.ended
	_, url = w.serve(nil)
	c = newModelClient(w, url, 1000)
	_, h = c.begin("PUT")
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+pathPrefix+"ready", nil)
	if err != nil {
		t.Fatal(err)
	}
	if req.Header = h; alice.Sign(req) != nil {
		t.Fatal("not signed")
	}
	cancel()
	if _, err := http.DefaultClient.Do(req); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	w.post(url, "cancel", alice, http.Header{headerProtocol: {protocol}, headerSession: h[headerSession]})
	<-w.ended
	for _, err := range w.ends {
		if status := statusOf(err).Status; status != http.StatusRequestTimeout {
			t.Errorf("%v: %d", err, status)
		}
	}
	if w.object("b/k") != nil {
		t.Error("something was stored")
	}
}

// TestPeerAddress checks that by default the server sends packets to nobody but the client.
func TestPeerAddress(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	_, url := w.serve(func(c *ServerConfig) { c.AllowPeer = nil })
	resp, err := w.transport(nil).RoundTrip(w.request(http.MethodPut, url+"/b/k", []byte("x")))
	if err != nil || resp.StatusCode != http.StatusForbidden {
		t.Error(resp, err)
	}
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.RemoteAddr = "[::ffff:192.0.2.7]:4711"
	if err := onlySender(r, netip.MustParseAddr("192.0.2.7")); err != nil {
		t.Error(err)
	}
	if err := onlySender(r, netip.MustParseAddr("192.0.2.8")); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
}

// TestHandlerErrors has the callbacks fail.
func TestHandlerErrors(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	for want, err := range map[int]error{
		http.StatusNotFound: fs.ErrNotExist, http.StatusForbidden: fs.ErrPermission, http.StatusNotImplemented: errors.ErrUnsupported,
		http.StatusInsufficientStorage: &StatusError{http.StatusInsufficientStorage, "Full", io.ErrShortWrite}, http.StatusInternalServerError: io.ErrNoProgress,
	} {
		_, url := w.serve(func(c *ServerConfig) {
			c.Store = func(context.Context, *Transfer, []byte) (*Info, error) { return nil, err }
		})
		resp, body := w.do(w.transport(nil), w.request(http.MethodPut, url+"/b/k", []byte("x")))
		if resp.StatusCode != want || want == http.StatusInternalServerError && bytes.Contains(body, []byte(err.Error())) {
			t.Errorf("%v: %v %s", err, resp.Status, body)
		}
	}
	_, url := w.serve(func(c *ServerConfig) { c.Store, c.Next = nil, w })
	if w.do(w.transport(nil), w.request(http.MethodPut, url+"/b/k", []byte("x"))); string(w.object("b/k")) != "x" {
		t.Error("no fallback")
	}
}

// TestHandlerPanics checks that a transfer ends when a callback panics, from which net/http recovers.
func TestHandlerPanics(t *testing.T) {
	w := newWorld(t, devices["mlx5"])
	for name, c := range map[string]*Transport{"hipobj": w.transport(nil), "cuobj": w.dcTransport()} {
		s, url := w.serve(func(c *ServerConfig) {
			withDC(c)
			c.Store = func(context.Context, *Transfer, []byte) (*Info, error) { panic(http.ErrAbortHandler) }
			c.Open = func(context.Context, *Transfer) (io.ReadCloser, *Info, error) { panic(http.ErrAbortHandler) }
		})
		for _, method := range []string{http.MethodPut, http.MethodGet} {
			if resp, err := c.RoundTrip(w.request(method, url+"/b/k", []byte("x"))); err == nil {
				t.Errorf("%s, %s: %v", name, method, resp.Status)
			}
			s.mu.Lock()
			if s.total != (usage{}) || len(s.sessions)+len(s.principals) > 0 {
				t.Errorf("%s, %s: %+v is left", name, method, s.total)
			}
			s.mu.Unlock()
		}
	}
}

func TestConfigErrors(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	for _, err := range []error{
		second(NewTransport(nil)), second(NewServer(nil)), second(NewTransport(&TransportConfig{Sign: alice.Sign})),
		second(NewServer(&ServerConfig{Link: Link{PD: w.pds[0], MTU: 99}, Authorize: w.authorize})),
		second(NewServer(&ServerConfig{Link: Link{PD: w.pds[0], Port: 9}, Authorize: w.authorize})), (*Transport)(nil).Close(), (*Server)(nil).Close(),
	} {
		if v := new(verbs.Error); !errors.As(err, &v) {
			t.Error(err)
		}
	}
	c := w.transport(nil)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	url := w.listen(w)
	if w.do(c, w.request(http.MethodPut, url+"/b/k", []byte("x"))); !errors.Is(c.Stats().Reason, net.ErrClosed) {
		t.Errorf("%+v", c.Stats())
	}
}

func second[T any](_ T, err error) error { return err }
