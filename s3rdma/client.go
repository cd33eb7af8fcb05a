package s3rdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TransportConfig configures a [Transport].
type TransportConfig struct {
	Link

	// Base sends the control requests, and all requests that do not go by RDMA. Nil stands for
	// http.DefaultTransport.
	Base http.RoundTripper

	// Sign signs a control request. It must cover all headers, as [Credentials.Sign] does, and must not
	// change any that begin with X-Amz-Rdma-. It must not be nil.
	Sign func(*http.Request) error

	// DCKey selects the protocol. Zero stands for hipobj-rc-v2. Another value stands for cuObject's protocol, which
	// needs the dynamically connected transport of mlx5: the request itself goes to the server with a token, and Sign
	// signs it anew. The key must be the server's, which is [DefaultDCKey] unless it is configured otherwise.
	DCKey uint64

	// Timeout limits the time of a transfer. Zero stands for 60 seconds.
	Timeout time.Duration
}

const (
	defaultTimeout  = time.Minute
	cancelTimeout   = time.Second
	graceTimeout    = 5 * time.Second       // between the server's answer and the arrival of its data
	connectPause    = 10 * time.Millisecond // for a server whose queue pair is not ready before the client's READY; later it costs a retry
	unsupportedTime = 5 * time.Minute
	maxHosts        = 1024
	maxError        = 64 << 10 // bytes of an answer's body
)

// Transport is an [http.RoundTripper] that moves the bodies of S3 requests by RDMA. It does so for GET and PUT requests
// of objects whose context comes from [WithBuffer]. It passes all other requests on to its base. If the server does not
// speak the protocol, it passes all requests on: [Transport.Stats] has the reason.
//
// A Transport belongs below the signing of requests, where the HTTP client of an SDK is.
// Its methods may be called concurrently.
type Transport struct {
	cfg   TransportConfig
	side  *side
	pause time.Duration // connectPause, or what a test sets

	mu     sync.Mutex // guards the fields below
	stats  TransportStats
	plain  map[string]time.Time  // hosts that do not speak the protocol, until when that is believed
	peers  map[string]netip.Addr // addresses of hosts that are of another family than the first choice
	active sync.WaitGroup
	closed bool
}

// TransportStats counts the requests of a [Transport] that had a buffer.
type TransportStats struct {
	Gets, Puts uint64 // that went by RDMA
	Bytes      uint64 // that these moved
	Plain      uint64 // that went by plain HTTP
	Failed     uint64 // that failed by RDMA
	// Reason is why the last request of Plain did not go by RDMA. It is nil if there is none.
	Reason error
}

type bufferKey struct{}

// WithBuffer returns a context for one request whose data are in b.
//
// For a PUT, b is the content of the object. The request must have a body with the same content, which is used when the
// request goes by plain HTTP. For a GET, b receives the object, or the range of it that the request asks for. The
// response's body reads from b. If the request went by plain HTTP, b is unchanged, and the body comes from the network.
// So a program reads the body in either case.
//
// b is registered with the device for this transfer only. It must not be used otherwise until the request has returned.
func WithBuffer(ctx context.Context, b []byte) context.Context {
	return context.WithValue(ctx, bufferKey{}, b)
}

// NewTransport returns a Transport, which must be closed. The error matches errors.ErrUnsupported if the port is not
// RoCE.
func NewTransport(cfg *TransportConfig) (*Transport, error) {
	const op = "create"
	if cfg == nil || cfg.Sign == nil {
		return nil, new(Link).failed(op, "transport", fmt.Errorf("TransportConfig.Sign is nil: %w", syscall.EINVAL))
	}
	t := &Transport{cfg: *cfg, pause: connectPause, plain: make(map[string]time.Time), peers: make(map[string]netip.Addr)}
	var err error
	if t.side, err = newSide(cfg.Link); err != nil {
		return nil, cfg.failed(op, "transport", err)
	}
	if err := t.side.needDC(cfg.DCKey); err != nil {
		return nil, cfg.failed(op, "transport", errors.Join(err, t.side.channel.Close()))
	}
	if t.cfg.Base == nil {
		t.cfg.Base = http.DefaultTransport
	}
	if t.cfg.Timeout == 0 {
		t.cfg.Timeout = defaultTimeout
	}
	return t, nil
}

// Stats returns the counters.
func (t *Transport) Stats() TransportStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stats
}

// Format implements [fmt.Formatter]. It prints the device and counters.
func (t *Transport) Format(f fmt.State, _ rune) {
	s := t.Stats()
	fmt.Fprintf(f, "s3rdma transport on %s, %d by RDMA, %d by plain HTTP", t.cfg.PD.Device().Info().Name, s.Gets+s.Puts, s.Plain)
}

// Close waits for the transfers under way, and frees the resources that they share. Requests with a buffer go by plain
// HTTP from then on. Close does not close Base. A second Close returns an error that matches net.ErrClosed.
func (t *Transport) Close() error {
	if t == nil {
		return new(Link).failed("close", "transport", os.ErrInvalid)
	}
	t.mu.Lock()
	closed := t.closed
	t.closed = true
	t.mu.Unlock()
	if closed {
		return t.cfg.failed("close", "transport", net.ErrClosed)
	}
	t.active.Wait()
	return t.cfg.failed("close", "transport", t.side.channel.Close())
}

// declined is the reason why a request goes by plain HTTP. Nothing has been moved.
type declined struct{ error }

func (d declined) Unwrap() error { return d.error }

func decline(format string, args ...any) error { return declined{fmt.Errorf(format, args...)} }

// RoundTrip implements [http.RoundTripper]. If a transfer fails after it has begun, it is unknown whether a PUT has
// stored the object. Then RoundTrip does not try plain HTTP, and returns an error: PUT and GET may be repeated.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	b, ok := req.Context().Value(bufferKey{}).([]byte)
	if !ok || req.Method != http.MethodGet && req.Method != http.MethodPut {
		return t.cfg.Base.RoundTrip(req)
	}
	resp, err := t.move(req, b)
	if d := (declined{}); errors.As(err, &d) {
		t.mu.Lock()
		t.stats.Plain++
		t.stats.Reason = d.error
		t.mu.Unlock()
		return t.cfg.Base.RoundTrip(req)
	}
	if req.Body != nil {
		_ = req.Body.Close()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil:
		t.stats.Failed++
		return nil, t.cfg.failed(req.Method, req.URL.Redacted(), err)
	case resp.StatusCode >= http.StatusMultipleChoices:
		t.stats.Failed++
	case t.cfg.DCKey != 0 && req.Method == http.MethodGet && !moved(resp.Header):
		t.stats.Plain++
		t.stats.Reason = errors.New("the server has sent the object by HTTP")
	case req.Method == http.MethodPut:
		t.stats.Puts++
		t.stats.Bytes += uint64(len(b))
	default:
		t.stats.Gets++
		t.stats.Bytes += uint64(resp.ContentLength)
	}
	return resp, nil
}

// move moves the data of a request.
func (t *Transport) move(req *http.Request, b []byte) (*http.Response, error) {
	if t.cfg.DCKey != 0 {
		if err := t.begin(req.URL.Host); err != nil {
			return nil, err
		}
		defer t.active.Done()
		ctx, cancel := context.WithTimeout(req.Context(), t.cfg.Timeout)
		resp, err := t.offer(ctx, req, b)
		if err != nil {
			cancel()
			return nil, err
		}
		resp.Body = &endingBody{resp.Body, cancel}
		return resp, nil
	}
	p, err := planOf(req, b)
	if err != nil {
		return nil, err
	}
	if p.put && len(b) > t.side.message {
		return nil, decline("the device's messages have at most %d bytes", t.side.message)
	}
	if err := t.begin(req.URL.Host); err != nil {
		return nil, err
	}
	defer t.active.Done()
	ctx, cancel := context.WithTimeout(req.Context(), t.cfg.Timeout)
	defer cancel()
	resp, err := t.attempt(ctx, req, p)
	if other := (*familyError)(nil); errors.As(err, &other) {
		// The server has its address from its configuration, and nothing has been moved yet.
		t.mu.Lock()
		if len(t.peers) >= maxHosts {
			clear(t.peers)
		}
		t.peers[req.URL.Host] = other.peer.Addr()
		t.mu.Unlock()
		resp, err = t.attempt(ctx, req, p)
	}
	return resp, err
}

func (t *Transport) attempt(ctx context.Context, req *http.Request, p *plan) (*http.Response, error) {
	t.mu.Lock()
	peer := t.peers[req.URL.Host]
	t.mu.Unlock()
	x := &transfer{t: t, ctx: ctx, req: req, plan: p}
	resp, err := x.run(peer)
	return resp, errors.Join(err, x.close())
}

// endingBody ends the context of a request when its body is closed.
type endingBody struct {
	io.ReadCloser
	end context.CancelFunc
}

func (b *endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// begin counts a transfer to a host, unless that is known not to speak the protocol.
func (t *Transport) begin(host string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return declined{net.ErrClosed}
	}
	if until, ok := t.plain[host]; ok {
		if time.Now().Before(until) {
			return decline("%s does not speak %s", host, protocol)
		}
		delete(t.plain, host)
	}
	t.active.Add(1)
	return nil
}

// remember notes that a host does not speak the protocol.
func (t *Transport) remember(host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.plain) >= maxHosts {
		clear(t.plain)
	}
	t.plain[host] = time.Now().Add(unsupportedTime)
}

// transfer is one transfer of a Transport.
type transfer struct {
	t    *Transport
	ctx  context.Context
	req  *http.Request
	plan *plan
	pair *pair
	mr   *uverbs.MR
	sent bool // the write of a PUT is posted
}

// close makes sure that the server can't reach the memory any more.
func (x *transfer) close() error {
	var errs []error
	if x.pair != nil {
		errs = append(errs, x.pair.close())
	}
	if x.mr != nil {
		errs = append(errs, x.mr.Close())
	}
	return errors.Join(errs...)
}

// run does the transfer. peer is the server's address if an earlier transfer has learned it.
func (x *transfer) run(peer netip.Addr) (*http.Response, error) {
	access := verbs.AccessRemoteWrite
	if x.plan.put {
		access = 0
	}
	var err error
	if x.pair, err = x.t.side.open(access, peer, 1); err != nil {
		return nil, err
	}
	first := prepare{token: x.pair.token(), psn: x.pair.psn, cookie: random(1<<32 - 1), op: x.req.Method, target: x.plan.target(),
		size: int64(len(x.plan.data)), offset: x.plan.offset}
	p, resp, err := x.prepare(&first)
	if err != nil || resp != nil {
		return resp, err
	}
	if err := x.refuse(p, &first); err != nil {
		x.cancel(p.session)
		return nil, err
	}
	resp, err = x.data(p, &first)
	if err != nil {
		x.cancel(p.session)
	}
	return resp, err
}

// refuse returns a reason why the transfer must not begin though the server would do it.
func (x *transfer) refuse(p *prepared, first *prepare) error {
	size := int64(len(x.plan.data))
	switch {
	case len(x.plan.query) > 0 && p.target != first.target:
		return decline("the server ignores queries such as %s", quote(x.plan.query.Encode()))
	case !x.plan.put && !x.plan.ranged && p.objectSize > size:
		return decline("the object has %d bytes, the buffer %d", p.objectSize, size)
	}
	return nil
}

// prepare sends the first message. A response is the server's error about the object.
func (x *transfer) prepare(first *prepare) (*prepared, *http.Response, error) {
	h := x.plan.header.Clone()
	first.set(h)
	resp, err := x.post(x.ctx, "prepare", h)
	if err != nil {
		return nil, nil, err
	}
	speaks := resp.Header.Get(headerProtocol) == protocol
	status := resp.StatusCode
	if status == http.StatusOK && speaks {
		p, err := parsePrepared(resp.Header, x.req.Method)
		return p, nil, err
	}
	if speaks && status >= http.StatusBadRequest && status != http.StatusNotImplemented && status != http.StatusRequestEntityTooLarge {
		return nil, resp, nil
	}
	if status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented {
		x.t.remember(x.req.URL.Host)
	}
	// An object may be too large only for RDMA. A server that answers without the protocol's name may have taken the
	// path for a bucket. The request by plain HTTP reports its error.
	return nil, nil, decline("the server answered %s to a request of %s", quote(resp.Status), protocol)
}

// post sends a control request, and returns the response with at most the beginning of its body.
func (x *transfer) post(ctx context.Context, name string, h http.Header) (*http.Response, error) {
	u := &url.URL{Scheme: x.req.URL.Scheme, Host: x.req.URL.Host, Path: pathPrefix + name}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Host = x.req.Host
	req.Header = h
	h.Set(headerProtocol, protocol)
	if err := x.t.cfg.Sign(req); err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	resp, err := x.t.cfg.Base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	if err != nil {
		return nil, err
	}
	resp.Body, resp.ContentLength, resp.Request = io.NopCloser(bytes.NewReader(body)), int64(len(body)), x.req
	return resp, nil
}

// cancel ends the server's session.
func (x *transfer) cancel(session string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), cancelTimeout)
	defer cancel()
	_, _ = x.post(ctx, "cancel", http.Header{headerSession: {session}}) // the server has a deadline in any case
}

// answer is the outcome of the second message.
type answer struct {
	resp *http.Response
	err  error
}

// data moves the data.
func (x *transfer) data(p *prepared, first *prepare) (*http.Response, error) {
	if err := x.pair.connect(&p.token, p.psn); err != nil {
		return nil, err
	}
	access := verbs.Access(0)
	if !x.plan.put {
		access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite
		if err := x.pair.expect(); err != nil {
			return nil, err
		}
	}
	var err error
	var arrived int64
	if x.mr, err = x.t.side.PD.RegMR(x.plan.data, access); err != nil {
		return nil, err
	}
	second := ready{session: p.session, cookie: first.cookie, qpn: x.pair.qp.QPN(), addr: x.mr.Addr(), rkey: x.mr.RKey()}
	h := make(http.Header)
	second.set(h)
	asking, stopAsking := context.WithCancel(x.ctx)
	defer stopAsking()
	waiting, stopWaiting := context.WithCancel(x.ctx)
	defer stopWaiting()
	answers := make(chan answer, 1)
	go func() {
		resp, err := x.post(asking, "ready", h)
		answers <- answer{resp, err}
		switch {
		case err != nil || resp.StatusCode >= http.StatusMultipleChoices || x.plan.put:
			stopWaiting()
		default:
			time.AfterFunc(graceTimeout, stopWaiting)
		}
	}()
	if x.plan.put {
		err = x.put(waiting, p, first.cookie)
	} else {
		arrived, err = x.pair.arrival(waiting, first.cookie)
	}
	early := err != nil && waiting.Err() == nil
	if early {
		stopAsking()
	}
	a := <-answers
	switch {
	case early:
		return nil, err
	case a.err != nil:
		return nil, a.err
	case a.resp.StatusCode >= http.StatusMultipleChoices:
		return a.resp, nil
	case !x.plan.put && err != nil:
		return nil, fmt.Errorf("the server reports that it has written, but nothing has arrived: %w", err)
	case x.plan.put && !x.sent:
		return nil, violation("the server reports that it has the data, but nothing has been sent")
	}
	return x.finish(p, a.resp, first.cookie, arrived)
}

// put writes the data. The server's answer says whether they have arrived, so an acknowledgement that was lost does no
// harm.
func (x *transfer) put(ctx context.Context, p *prepared, cookie uint32) error {
	if !p.connected {
		select {
		case <-time.After(x.t.pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := x.pair.write(x.mr, len(x.plan.data), p.addr, p.rkey, cookie); err != nil {
		return err
	}
	x.sent = true
	if _, err := x.pair.wait(ctx); err != nil && !errors.Is(err, verbs.StatusRetryExcErr) {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// finish checks the server's answer, and makes the response of it. arrived is the length of the server's last write.
func (x *transfer) finish(p *prepared, resp *http.Response, cookie uint32, arrived int64) (*http.Response, error) {
	r, err := parseResult(resp.Header)
	size := int64(len(x.plan.data))
	switch {
	case err != nil:
		return nil, err
	case resp.Header.Get(headerProtocol) != protocol:
		return nil, violation("the answer does not name it")
	case r.cookie != cookie:
		return nil, violation("the answer belongs to another transfer")
	case r.bytes > size, r.bytes < size && x.plan.put, r.bytes == 0:
		return nil, violation("the answer says that %d bytes of %d were moved", r.bytes, size)
	case r.bytes < arrived:
		return nil, violation("the answer says that %d bytes were moved, but %d have arrived", r.bytes, arrived)
	case !x.plan.put && p.objectSize >= 0 && r.bytes != min(size, p.objectSize-x.plan.offset):
		return nil, violation("the answer says that %d bytes were moved of an object of %d", r.bytes, p.objectSize)
	}
	data := x.plan.data[:r.bytes]
	if want := x.plan.header.Get(checksumCRC64); r.checksum != "" {
		if !x.plan.put {
			want = crc64Of(data)
		}
		if want != "" && want != r.checksum {
			return nil, fmt.Errorf("the checksum is %s, the server's %s: %w", want, quote(r.checksum), syscall.EBADMSG)
		}
	}
	return x.plan.response(x.req, resp.Header, r, p.objectSize), nil
}
