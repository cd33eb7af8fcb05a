package rcserver

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/s3rdma"
	"github.com/goverbs/goverbs/uverbs"
)

var creds = &s3rdma.Credentials{AccessKey: "somebody", SecretKey: "secret"}

// gateway calls the service in versitygw's order.
type gateway struct {
	t   *testing.T
	svc *RCSvc

	mu      sync.Mutex // guards the fields below
	objects map[string][]byte
	dropPut bool // the store refuses the data
}

func hexOf(s string) uint64 {
	n, _ := strconv.ParseUint(s, 16, 64)
	return n
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.svc.TryEnter() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer g.svc.Leave()
	if err := creds.Verify(r); err != nil {
		g.t.Error(err)
	}
	who := PrincipalID(sha256.Sum256([]byte(creds.AccessKey)))
	w.Header().Set("X-Amz-Rdma-Protocol", "hipobj-rc-v2")
	var err error
	switch r.URL.Path {
	case "/.hipobj-rc/prepare":
		err = g.prepare(w.Header(), r.Header, who)
	case "/.hipobj-rc/ready":
		err = g.ready(w.Header(), r.Header, who)
	case "/.hipobj-rc/cancel":
		err = g.svc.Cancel(r.Header.Get("X-Amz-Rdma-Session"), who)
	default:
		g.t.Errorf("%s %s by plain HTTP", r.Method, r.URL)
	}
	for cause, status := range map[error]int{ErrArg: 400, ErrShort: 400, ErrNoSession: 404, ErrSession: 404, ErrStale: 409, ErrState: 409, ErrLimit: 429, ErrWire: 502} {
		if errors.Is(err, cause) {
			http.Error(w, err.Error(), status)
			return
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (g *gateway) prepare(answer, h http.Header, who PrincipalID) error {
	target := h.Get("X-Amz-Rdma-Target")
	size, err1 := strconv.ParseUint(h.Get("X-Amz-Rdma-Size"), 10, 64)
	offset, err2 := strconv.ParseUint(h.Get("X-Amz-Rdma-Offset"), 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	op := uint8(opGet)
	if h.Get("X-Amz-Rdma-Op") == http.MethodPut {
		op = opPut
	}
	resp, err := g.svc.Prepare(PrepareRequest{Principal: who, Op: op, Target: target, Offset: offset, Size: size, ClientPsn: uint32(hexOf(h.Get("X-Amz-Rdma-Psn"))),
		Cookie: uint32(hexOf(h.Get("X-Amz-Rdma-Cookie"))), ClientToken: h.Get("X-Amz-Rdma-Token")})
	if err != nil {
		return err
	}
	if op == opGet {
		lease, err := g.svc.BorrowStaging(resp.SessionID)
		if err != nil {
			return err
		}
		if _, err := g.svc.BorrowStaging(resp.SessionID); !errors.Is(err, ErrDouble) {
			g.t.Error(err)
		}
		g.mu.Lock()
		n := copy(lease.Buf, g.objects[target][offset:])
		g.mu.Unlock()
		if err := g.svc.FinishStaging(*lease, true, n, "etag", "version"); err != nil {
			return err
		}
		if err := g.svc.FinishStaging(*lease, true, n, "", ""); !errors.Is(err, ErrStale) {
			g.t.Error(err)
		}
	}
	if err := g.svc.FinishPrepare(resp.SessionID, true); err != nil {
		return err
	}
	answer.Set("X-Amz-Rdma-Reply", "200:"+resp.ReplyToken)
	answer.Set("X-Amz-Rdma-Session", resp.SessionID)
	answer.Set("X-Amz-Rdma-Psn", fmt.Sprintf("%06X", resp.ServerPsn))
	answer.Set("X-Amz-Rdma-Qpn", strconv.FormatUint(uint64(resp.ServerQpn), 16))
	answer.Set("X-Amz-Rdma-Mr-Addr", strconv.FormatUint(resp.StagingAddr, 16))
	answer.Set("X-Amz-Rdma-Mr-Rkey", strconv.FormatUint(uint64(resp.StagingRkey), 16))
	return nil
}

func (g *gateway) ready(answer, h http.Header, who PrincipalID) error {
	req := ReadyRequest{Principal: who, SessionID: h.Get("X-Amz-Rdma-Session"), Cookie: uint32(hexOf(h.Get("X-Amz-Rdma-Cookie"))),
		ClientQpn: uint32(hexOf(h.Get("X-Amz-Rdma-Qpn"))), ClientMrAddr: hexOf(h.Get("X-Amz-Rdma-Mr-Addr")), ClientMrRkey: uint32(hexOf(h.Get("X-Amz-Rdma-Mr-Rkey")))}
	info, err := g.svc.SessionInfo(req.SessionID, who)
	if err != nil {
		return err
	}
	// None of these may disturb the session.
	spoiled := req
	spoiled.Cookie ^= 1
	if _, err := g.svc.ReadyTransfer(spoiled); !errors.Is(err, ErrSession) {
		g.t.Error(err)
	}
	spoiled = req
	spoiled.ClientQpn ^= 1
	if _, err := g.svc.ReadyTransfer(spoiled); !errors.Is(err, ErrArg) {
		g.t.Error(err)
	}
	if _, err := g.svc.SessionInfo(req.SessionID, PrincipalID{}); !errors.Is(err, ErrSession) {
		g.t.Error(err)
	}
	if err := g.svc.Cancel(req.SessionID, PrincipalID{}); !errors.Is(err, ErrStale) {
		g.t.Error(err)
	}
	resp, err := g.svc.ReadyTransfer(req)
	if err != nil {
		return err
	}
	if _, err := g.svc.ReadyTransfer(req); !errors.Is(err, ErrState) {
		g.t.Error(err)
	}
	if info.Op == opPut {
		view, err := g.svc.GetPutData(req.SessionID)
		if err != nil {
			return err
		}
		g.mu.Lock()
		if !g.dropPut {
			g.objects[info.Target] = bytes.Clone(view.Buf)
		}
		g.mu.Unlock()
		if err := g.svc.FinishPut(*view, !g.dropPut, "etag", "version"); err != nil {
			return err
		}
		resp.Etag = "etag"
	} else if err := g.svc.FinishFinal(req.SessionID); err != nil {
		return err
	}
	answer.Set("X-Amz-Rdma-Bytes-Transferred", strconv.FormatUint(resp.BytesTransferred, 10))
	answer.Set("X-Amz-Rdma-Cookie", fmt.Sprintf("%08X", resp.CookieEcho))
	answer.Set("X-Amz-Rdma-Etag", resp.Etag)
	return nil
}

// opts are versitygw's, but for MaxUserSessions.
var opts = DeviceOpts{Port: 1, MaxSessions: 1024, MaxUserSessions: 2, MaxStagingBytes: 4 << 30, MaxUserStagingBytes: 1 << 30, MaxQPs: 1024, MaxUserQPs: 16, TPrepMs: 100000, TExecMs: 30000}

// TestPutGet moves objects between the service and s3rdma's client.
func TestPutGet(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		t.Run(kind.String(), func(t *testing.T) {
			fabric := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
			svc, err := Init(opts)
			if err != nil {
				t.Fatal(err)
			}
			g := &gateway{t: t, svc: svc, objects: make(map[string][]byte)}
			server := httptest.NewServer(g)
			dev, err := uverbs.Open(fabric.Host(1).Device(0).Name())
			if err != nil {
				t.Fatal(err)
			}
			pd, err := dev.AllocPD()
			if err != nil {
				t.Fatal(err)
			}
			base := &http.Transport{}
			c, err := s3rdma.NewTransport(&s3rdma.TransportConfig{Link: s3rdma.Link{PD: pd}, Base: base, Sign: creds.Sign})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				base.CloseIdleConnections()
				server.Close()
				svc.Close()
				svc.Close()
				if svc.TryEnter() || svc.Context().Err() == nil {
					t.Error("a closed service admits requests")
				}
				if err := errors.Join(c.Close(), pd.Close(), dev.Close()); err != nil {
					t.Error(err)
				}
			})
			do := func(method string, b []byte) (int, []byte) {
				t.Helper()
				var body io.Reader
				if method == http.MethodPut {
					body = bytes.NewReader(b)
				}
				req, err := http.NewRequestWithContext(s3rdma.WithBuffer(t.Context(), b), method, server.URL+"/bucket/key", body)
				if err != nil {
					t.Fatal(err)
				}
				if err := creds.Sign(req); err != nil {
					t.Fatal(err)
				}
				resp, err := c.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				got, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				return resp.StatusCode, got
			}
			for _, n := range []int{1, 65536, 1<<20 + 1} {
				want := bytes.Repeat([]byte{byte(n), 2, 3}, n)[:n]
				if status, _ := do(http.MethodPut, want); status != http.StatusOK || !bytes.Equal(g.objects["/bucket/key"], want) {
					t.Errorf("PUT of %d bytes: %d", n, status)
				}
				if status, got := do(http.MethodGet, make([]byte, n+1)); status != http.StatusOK || !bytes.Equal(got, want) {
					t.Errorf("GET of %d bytes: %d, %d bytes", n, status, len(got))
				}
			}
			g.dropPut = true
			do(http.MethodPut, []byte("x"))
			svc.mu.Lock()
			left, users := len(svc.sessions), len(svc.users)
			svc.mu.Unlock()
			if s := c.Stats(); s.Plain+s.Failed > 0 || s.Puts != 4 || s.Gets != 3 || left+users > 0 || svc.total != (usage{}) {
				t.Errorf("%+v, %d sessions of %d users", s, left, users)
			}
			for range 2 { // wrong sizes and tokens, and the limit of sessions
				testRefusals(t, svc)
			}
		})
	}
}

// testRefusals asks for what must not be, and leaves no session.
func testRefusals(t *testing.T, svc *RCSvc) {
	t.Helper()
	const token = "01" + "56341200" + "00000000000000000000ffffc0000201" + "00000000" + "0000000000000000" + "0000000000000000" + "01" + "0000"
	good := PrepareRequest{Op: opGet, Target: "/b/k", Size: 100, ClientPsn: 1, Cookie: 1, ClientToken: token}
	for name, test := range map[string]struct {
		edit func(*PrepareRequest)
		want error
	}{
		"no size":           {func(r *PrepareRequest) { r.Size = 0 }, ErrArg},
		"2 GiB":             {func(r *PrepareRequest) { r.Size = 1 << 31 }, ErrArg},
		"a range that ends": {func(r *PrepareRequest) { r.Offset = 1<<64 - 1 }, ErrArg},
		"a short token":     {func(r *PrepareRequest) { r.ClientToken = token[:86] }, ErrArg},
		"DC":                {func(r *PrepareRequest) { r.ClientToken = "00" + token[2:] }, ErrArg},
		"no GID":            {func(r *PrepareRequest) { r.ClientToken = token[:10] + strings.Repeat("0", 78) }, ErrArg},
		"a long target":     {func(r *PrepareRequest) { r.Target = strings.Repeat("k", 2048) }, ErrTrunc},
		"too much memory":   {func(r *PrepareRequest) { r.Size = 1<<30 + 1 }, ErrLimit},
	} {
		r := good
		test.edit(&r)
		if _, err := svc.Prepare(r); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var sessions []string
	for i := range 3 {
		p, err := svc.Prepare(good)
		if (i == 2) != errors.Is(err, ErrLimit) {
			t.Fatal(i, err)
		}
		if err == nil {
			sessions = append(sessions, p.SessionID)
		}
	}
	// A session that is canceled while its memory is lent stays until that comes back.
	lease, err := svc.BorrowStaging(sessions[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := svc.Cancel(sessions[0], good.Principal); err != nil {
		t.Error(err)
	}
	if _, err := svc.Prepare(good); !errors.Is(err, ErrLimit) {
		t.Error("the memory is free already")
	}
	if err := svc.FinishStaging(*lease, true, 1, "", ""); err != nil {
		t.Error(err)
	}
	if err := svc.FinishPrepare(sessions[1], true); !errors.Is(err, ErrState) {
		t.Error("a GET without its object:", err)
	}
	if err := svc.FinishPrepare(sessions[1], false); err != nil {
		t.Error(err)
	}
	for _, id := range sessions {
		if _, err := svc.ReadyTransfer(ReadyRequest{SessionID: id, Cookie: 1, ClientQpn: 0x123456}); !errors.Is(err, ErrNoSession) {
			t.Error(err)
		}
	}
	if _, err := svc.BorrowStaging("x"); !errors.Is(err, ErrNoSession) {
		t.Error(err)
	}
}

// TestExpiry has a client that never goes on, and one whose data never come.
func TestExpiry(t *testing.T) {
	rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.RXE})
	req := PrepareRequest{Op: opPut, Target: "/b/k", Size: 100, ClientPsn: 1, Cookie: 1,
		ClientToken: "01" + "56341200" + "00000000000000000000ffffc0000201" + strings.Repeat("0", 40) + "01" + "0000"}
	begin := func(prepare, execute uint64) (*RCSvc, string) {
		short := opts
		short.TPrepMs, short.TExecMs = prepare, execute
		svc, err := Init(short)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(svc.Close)
		p, err := svc.Prepare(req)
		if errors.Is(err, ErrInternal) { // it was over at once
			return svc, "x"
		} else if err != nil {
			t.Fatal(err)
		}
		return svc, p.SessionID
	}
	svc, id := begin(opts.TPrepMs, 1)
	if err := svc.FinishPrepare(id, true); err != nil {
		t.Fatal(err)
	}
	if _, err := svc.ReadyTransfer(ReadyRequest{SessionID: id, Cookie: 1, ClientQpn: 0x123456}); !errors.Is(err, ErrWire) {
		t.Error(err)
	}
	svc, id = begin(1, opts.TExecMs)
	for {
		if _, err := svc.SessionInfo(id, req.Principal); err != nil {
			break
		}
		runtime.Gosched()
	}
	if svc.total != (usage{}) {
		t.Error(svc.total)
	}
}
