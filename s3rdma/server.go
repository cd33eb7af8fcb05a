package s3rdma

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
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

// ServerConfig configures a [Server]. The functions may be called concurrently. Their errors become the status of the
// answer: a [StatusError] its own, fs.ErrNotExist 404, fs.ErrPermission 403, errors.ErrUnsupported 501, and others 500.
type ServerConfig struct {
	Link

	// Authorize checks the signature of a control request, and that its sender may make the transfer t. It returns a
	// name of the sender, whose sessions nobody else can use. Authorize is called for each request of a transfer. It
	// must not be nil.
	Authorize func(r *http.Request, t *Transfer) (principal string, err error)

	// AllowPeer decides whether the server may send RDMA packets to an address, which is in the client's token. Nil
	// allows only the address that the HTTP request has come from.
	AllowPeer func(r *http.Request, addr netip.Addr) error

	// Open opens an object for reading, from t.Offset on. Info.Size must be that of the whole object. ctx ends with
	// the request. Nil refuses every GET.
	Open func(ctx context.Context, t *Transfer) (io.ReadCloser, *Info, error)

	// Store stores an object, or the part of one that t.Query names. The client can't change data any more, which are
	// valid until Store returns. ctx ends when the client gives up. Nil refuses every PUT.
	Store func(ctx context.Context, t *Transfer, data []byte) (*Info, error)

	// Done, if it is not nil, is called when a transfer has ended with n bytes moved, or has been refused.
	Done func(t *Transfer, n int64, err error)

	// Next answers the requests that do not belong to the protocol. Nil answers 404.
	Next http.Handler

	// DCKey is the key of the targets of clients that speak cuObject's protocol, usually [DefaultDCKey]. It needs the
	// dynamically connected transport of mlx5. Zero declines their requests: a GET goes to Next, and a PUT gets 501.
	DCKey uint64

	// MaxTransfer is the largest number of bytes of a transfer. Zero stands for 64 MiB. The most is [MaxSize], and the
	// largest power of two within MaxStaging and MaxPrincipalStaging. A [Transport] whose request is larger uses plain
	// HTTP.
	MaxTransfer int64
	// MaxSessions limits the transfers under way, and MaxPrincipalSessions those of one principal. Zeros stand for 1024
	// and 64.
	MaxSessions, MaxPrincipalSessions int
	// MaxStaging limits the bytes of memory that transfers use, and MaxPrincipalStaging those of one principal. Zeros
	// stand for 1 GiB and 256 MiB. Sizes of transfers are rounded up to powers of two.
	MaxStaging, MaxPrincipalStaging int64

	// PrepareTimeout is how long a client may wait with its second request, and TransferTimeout limits the movement of
	// the data. Zeros stand for 10 and 30 seconds.
	PrepareTimeout, TransferTimeout time.Duration
}

// Transfer is a client's request. It is read-only.
type Transfer struct {
	Method      string // GET or PUT
	Bucket, Key string
	Query       url.Values
	Offset      int64 // of a GET
	Size        int64 // of the data of a PUT, the most of a GET
	// Header has the headers of the client's first request. A server that can't respect one of them refuses the
	// transfer. The checksums X-Amz-Checksum-Crc64nvme, -Crc32c and -Crc32 of a PUT are checked before Store is called.
	Header http.Header
}

// Info describes an object.
type Info struct {
	Size        int64 // of the whole object; only Open uses it
	ETag        string
	VersionID   string
	ContentType string
	Modified    time.Time
}

func (i *Info) set(h http.Header) {
	if i.ContentType != "" {
		h.Set("Content-Type", i.ContentType)
	}
	if !i.Modified.IsZero() {
		h.Set("Last-Modified", i.Modified.UTC().Format(http.TimeFormat))
	}
}

// StatusError is an error with the status and code of the answer.
type StatusError struct {
	Status int    // such as 404
	Code   string // of S3, such as NoSuchKey
	Err    error  // whose text the client sees
}

func (e *StatusError) Error() string { return e.Code + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *StatusError) Unwrap() error { return e.Err }

func refusal(status int, code, format string, args ...any) error {
	return &StatusError{status, code, fmt.Errorf(format, args...)}
}

// Server is an [http.Handler] that moves objects by RDMA. It answers the requests below /.hipobj-rc/ and passes all
// others on. Its methods may be called concurrently.
type Server struct {
	cfg  ServerConfig
	side *side
	ctx  context.Context // ends with the server
	stop context.CancelFunc

	pools [32]sync.Pool // of *[]byte, whose length is the power of two

	mu         sync.Mutex // guards the fields below, and session.state
	closed     bool
	sessions   map[string]*session
	total      usage
	principals map[string]*usage
	active     sync.WaitGroup // of sessions
}

type usage struct {
	sessions int
	bytes    int64
}

// session is a transfer on the server's side. Its fields but state are not changed after it is in the table.
type session struct {
	id        string
	principal string
	transfer  *Transfer
	prepare   *prepare
	pair      *pair
	memory    *[]byte
	mr        *uverbs.MR
	size      int64 // of the data
	info      *Info // of the object of a GET
	timer     *time.Timer
	checksum  string // of the answer
	state     state
	ctx       context.Context
	cancel    context.CancelFunc
	ended     chan struct{}
}

type state uint8

const (
	waiting state = iota // for the client's second request
	moving
	over
)

// NewServer returns a Server, which must be closed. The error matches errors.ErrUnsupported if the port is not RoCE.
func NewServer(cfg *ServerConfig) (*Server, error) {
	const op = "create"
	if cfg == nil || cfg.Authorize == nil {
		return nil, new(Link).failed(op, "server", fmt.Errorf("ServerConfig.Authorize is nil: %w", syscall.EINVAL))
	}
	s := &Server{cfg: *cfg, sessions: make(map[string]*session), principals: make(map[string]*usage)}
	c := &s.cfg
	c.MaxSessions, c.MaxPrincipalSessions = cmp.Or(c.MaxSessions, 1024), cmp.Or(c.MaxPrincipalSessions, 64)
	c.MaxStaging, c.MaxPrincipalStaging = cmp.Or(c.MaxStaging, 1<<30), cmp.Or(c.MaxPrincipalStaging, 256<<20)
	room := uint64(max(min(c.MaxStaging, c.MaxPrincipalStaging), 0))
	c.MaxTransfer = min(cmp.Or(c.MaxTransfer, 64<<20), MaxSize, int64(uint64(1)<<bits.Len64(room)>>1)) // allocate rounds up
	c.PrepareTimeout, c.TransferTimeout = cmp.Or(c.PrepareTimeout, 10*time.Second), cmp.Or(c.TransferTimeout, 30*time.Second)
	if c.AllowPeer == nil {
		c.AllowPeer = onlySender
	}
	var err error
	if s.side, err = newSide(cfg.Link); err != nil {
		return nil, cfg.failed(op, "server", err)
	}
	if err := s.side.needDC(c.DCKey); err != nil {
		return nil, cfg.failed(op, "server", errors.Join(err, s.side.channel.Close()))
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

func onlySender(r *http.Request, addr netip.Addr) error {
	if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && from.Addr().Unmap().WithZone("") == addr {
		return nil
	}
	return fmt.Errorf("the token's address %v is not the sender's: %w", addr, fs.ErrPermission)
}

// Format implements [fmt.Formatter]. It prints the device and the number of sessions.
func (s *Server) Format(f fmt.State, _ rune) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(f, "s3rdma server on %s, %d sessions", s.cfg.PD.Device().Info().Name, len(s.sessions))
}

// Close ends all transfers, and waits until they have ended. New ones are refused with 503. A second Close returns an
// error that matches net.ErrClosed.
func (s *Server) Close() error {
	if s == nil {
		return new(Link).failed("close", "server", os.ErrInvalid)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return s.cfg.failed("close", "server", net.ErrClosed)
	}
	s.closed = true
	var idle []*session
	for _, x := range s.sessions {
		if x.state == waiting {
			x.state = over
			idle = append(idle, x)
		}
	}
	s.mu.Unlock()
	s.stop()
	for _, x := range idle {
		s.end(x, 0, net.ErrClosed)
	}
	s.active.Wait()
	return s.cfg.failed("close", "server", s.side.channel.Close())
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var handle func(http.ResponseWriter, *http.Request) error
	switch r.URL.Path {
	case pathPrefix + "prepare":
		handle = s.servePrepare
	case pathPrefix + "ready":
		handle = s.serveReady
	case pathPrefix + "cancel":
		handle = s.serveCancel
	default:
		if r.Header[headerToken] != nil && (r.Method == http.MethodGet || r.Method == http.MethodPut) {
			if err := s.serveToken(w, r); err != nil {
				writeError(w, err)
			}
		} else if s.cfg.Next != nil {
			s.cfg.Next.ServeHTTP(w, r)
		} else {
			http.NotFound(w, r)
		}
		return
	}
	var err error
	switch v := r.Header.Values(headerProtocol); {
	case r.Method != http.MethodPost:
		err = refusal(http.StatusMethodNotAllowed, "MethodNotAllowed", "want POST")
	case len(v) != 1 || v[0] != protocol:
		w.Header().Set(headerStatus, unsupported)
		err = refusal(http.StatusNotImplemented, "NotImplemented", "want protocol %s", protocol)
	default:
		w.Header().Set(headerProtocol, protocol)
		err = handle(w, r)
	}
	if err != nil {
		writeError(w, err)
	}
}

// statusOf returns the status and the code of an error, and what the client may know of it.
func statusOf(err error) *StatusError {
	status, text := &StatusError{}, err
	var wc verbs.Status
	switch {
	case errors.As(err, &status):
		return status
	case errors.Is(err, ErrProtocol):
		return &StatusError{http.StatusBadRequest, "InvalidRequest", text}
	case errors.Is(err, fs.ErrNotExist):
		return &StatusError{http.StatusNotFound, "NoSuchKey", fs.ErrNotExist}
	case errors.Is(err, fs.ErrPermission):
		return &StatusError{http.StatusForbidden, "AccessDenied", text}
	case errors.Is(err, errors.ErrUnsupported):
		return &StatusError{http.StatusNotImplemented, "NotImplemented", errors.ErrUnsupported}
	case errors.Is(err, net.ErrClosed):
		return &StatusError{http.StatusServiceUnavailable, "ServiceUnavailable", errors.New("the server is closing")}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &StatusError{http.StatusRequestTimeout, "RequestTimeout", errors.New("the data have not been moved in time")}
	case errors.As(err, &wc):
		return &StatusError{http.StatusBadGateway, "RDMAFailed", wc}
	}
	return &StatusError{http.StatusInternalServerError, "InternalError", errors.New("see the server's log")}
}

func writeError(w http.ResponseWriter, err error) {
	e := statusOf(err)
	body, _ := xml.Marshal(struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}{Code: e.Code, Message: e.Err.Error()})
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(e.Status)
	_, _ = w.Write(append([]byte(xml.Header), body...))
}

// servePrepare begins a transfer.
func (s *Server) servePrepare(w http.ResponseWriter, r *http.Request) error {
	p, err := parsePrepare(r.Header)
	if err != nil {
		return err
	}
	t := &Transfer{Method: p.op, Offset: p.offset, Size: p.size, Header: r.Header}
	if t.Bucket, t.Key, t.Query, err = parseTarget(p.target); err != nil {
		return err
	}
	x, err := s.begin(r, t, p)
	if err != nil {
		s.done(t, 0, err)
		return err
	}
	answer := prepared{token: x.pair.token(), session: x.id, psn: x.pair.psn, connected: true, target: p.target, objectSize: -1}
	answer.token.length = uint64(x.size)
	if x.info != nil {
		answer.objectSize = x.info.Size
	}
	if p.op == http.MethodPut {
		answer.token.addr, answer.token.rkey = x.mr.Addr(), x.mr.RKey()
		answer.addr, answer.rkey = x.mr.Addr(), x.mr.RKey()
	}
	answer.set(w.Header())
	w.WriteHeader(http.StatusOK)
	return nil
}

func (s *Server) done(t *Transfer, n int64, err error) {
	if s.cfg.Done != nil {
		s.cfg.Done(t, n, err)
	}
}

// begin creates a session.
func (s *Server) begin(r *http.Request, t *Transfer, p *prepare) (*session, error) {
	principal, err := s.cfg.Authorize(r, t)
	if err != nil {
		return nil, err
	}
	if err := s.cfg.AllowPeer(r, p.token.gid.Addr()); err != nil {
		return nil, err
	}
	if t.Size > s.cfg.MaxTransfer {
		return nil, refusal(http.StatusRequestEntityTooLarge, "EntityTooLarge", "%d bytes, the most is %d", t.Size, s.cfg.MaxTransfer)
	}
	if t.Method == http.MethodGet && s.cfg.Open == nil || t.Method == http.MethodPut && s.cfg.Store == nil {
		return nil, refusal(http.StatusNotImplemented, "NotImplemented", "no %s by RDMA", t.Method)
	}
	x := s.newSession(principal, t)
	x.prepare = p
	if err := s.admit(x); err != nil {
		x.cancel()
		return nil, err
	}
	staged := false
	defer func() { // a function of the program may panic, from which net/http recovers
		if !staged {
			s.free(x)
		}
	}()
	ctx, cancel := during(r.Context(), x)
	err = s.stage(ctx, x)
	cancel()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		x.state = waiting
		s.sessions[x.id] = x
		x.timer = time.AfterFunc(s.cfg.PrepareTimeout, func() {
			if s.claim(x) {
				s.end(x, 0, fmt.Errorf("the client has not gone on: %w", context.DeadlineExceeded))
			}
		})
	}
	s.mu.Unlock()
	if staged = !closed; closed { // and Close waits until the session is freed
		return nil, net.ErrClosed
	}
	return x, nil
}

// newSession returns a session that nobody else can find yet.
func (s *Server) newSession(principal string, t *Transfer) *session {
	var id [sessionSize]byte
	_, _ = rand.Read(id[:]) // never fails
	x := &session{id: hex.EncodeToString(id[:]), principal: principal, transfer: t, size: t.Size, ended: make(chan struct{}), state: moving}
	x.ctx, x.cancel = context.WithCancel(s.ctx)
	return x
}

// admit counts a session.
func (s *Server) admit(x *session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	u := s.principals[x.principal]
	if s.total.sessions >= s.cfg.MaxSessions || u != nil && u.sessions >= s.cfg.MaxPrincipalSessions {
		return refusal(http.StatusTooManyRequests, "SlowDown", "too many transfers")
	}
	if u == nil {
		u = new(usage)
		s.principals[x.principal] = u
	}
	u.sessions++
	s.total.sessions++
	s.active.Add(1)
	return nil
}

// allocate takes memory for a session's data.
func (s *Server) allocate(x *session) error {
	class := bits.Len64(uint64(max(x.size, 4096) - 1))
	size := int64(1) << class
	s.mu.Lock()
	u := s.principals[x.principal]
	if s.total.bytes+size > s.cfg.MaxStaging || u.bytes+size > s.cfg.MaxPrincipalStaging {
		s.mu.Unlock()
		return refusal(http.StatusTooManyRequests, "SlowDown", "too much data in transfers")
	}
	u.bytes += size
	s.total.bytes += size
	s.mu.Unlock()
	if b, ok := s.pools[class].Get().(*[]byte); ok {
		x.memory = b
		return nil
	}
	b := make([]byte, size)
	x.memory = &b
	return nil
}

// stage makes everything that the transfer needs, and reads the object of a GET.
func (s *Server) stage(ctx context.Context, x *session) error {
	put := x.transfer.Method == http.MethodPut
	var body io.ReadCloser
	if !put {
		var err error
		if body, x.info, err = s.cfg.Open(ctx, x.transfer); err != nil {
			return err
		}
		defer body.Close()
		if x.transfer.Offset >= x.info.Size {
			return refusal(http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "the object has %d bytes", x.info.Size)
		}
		x.size = min(x.size, x.info.Size-x.transfer.Offset)
	}
	if err := s.allocate(x); err != nil {
		return err
	}
	data, access, remote := (*x.memory)[:x.size], verbs.Access(0), verbs.Access(0)
	if put {
		access, remote = verbs.AccessLocalWrite|verbs.AccessRemoteWrite, verbs.AccessRemoteWrite
	} else if _, err := io.ReadFull(body, data); err != nil {
		return fmt.Errorf("read the object: %w", err)
	}
	var err error
	if x.mr, err = s.side.PD.RegMR(data, access); err != nil {
		return err
	}
	sends := 1
	if !put {
		sends = s.side.requests(len(data))
	}
	if x.pair, err = s.side.open(remote, x.prepare.token.gid.Addr(), sends); err != nil {
		return err
	}
	if put {
		if err := x.pair.expect(); err != nil {
			return err
		}
	}
	return x.pair.connect(&x.prepare.token, x.prepare.psn)
}

// free frees all that a session has, and its place.
func (s *Server) free(x *session) {
	x.cancel()
	var err error
	if x.pair != nil {
		err = x.pair.close()
	}
	if x.mr != nil {
		err = errors.Join(err, x.mr.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.principals[x.principal]
	if x.memory != nil {
		n := int64(len(*x.memory))
		if err == nil { // otherwise the device may still use it
			s.pools[bits.Len64(uint64(n))-1].Put(x.memory)
		}
		s.total.bytes -= n
		u.bytes -= n
	}
	s.total.sessions--
	if u.sessions--; u.sessions == 0 {
		delete(s.principals, x.principal)
	}
	delete(s.sessions, x.id)
	s.active.Done()
}

// claim reports whether the caller is the one who goes on with the session, or ends it.
func (s *Server) claim(x *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.state != waiting {
		return false
	}
	x.state = moving
	return true
}

// end ends a session that the caller has claimed.
func (s *Server) end(x *session, n int64, err error) {
	defer close(x.ended)
	defer s.free(x)
	x.timer.Stop()
	s.done(x.transfer, n, err)
}

// during returns a context that ends with the request, the session and the server.
func during(request context.Context, x *session) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(request)
	stop := context.AfterFunc(x.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// errPanicked is the error of a transfer whose ServerConfig.Store panicked.
var errPanicked = errors.New("ServerConfig.Store has panicked")

// find returns a session of the sender of a request, or nil.
func (s *Server) find(r *http.Request, id string) (*session, error) {
	s.mu.Lock()
	x := s.sessions[id]
	s.mu.Unlock()
	if x == nil {
		return nil, nil
	}
	principal, err := s.cfg.Authorize(r, x.transfer)
	if err != nil || principal != x.principal {
		return nil, err
	}
	return x, nil
}

// serveReady moves the data, and answers when that is done.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) error {
	m, err := parseReady(r.Header)
	if err != nil {
		return err
	}
	x, err := s.find(r, m.session)
	switch {
	case err != nil:
		return err
	case x == nil:
		return refusal(http.StatusNotFound, "NoSuchSession", "there is no such session")
	case !s.claim(x):
		return refusal(http.StatusConflict, "OperationAborted", "the session is in use")
	}
	returned := false
	defer func() {
		if !returned {
			s.end(x, 0, errPanicked)
		}
	}()
	ctx, cancel := during(r.Context(), x)
	info, err := s.run(ctx, x, m)
	cancel()
	n := x.size
	if err != nil {
		n = 0
		if s.ctx.Err() != nil {
			err = errors.Join(net.ErrClosed, err)
		}
	}
	returned = true
	s.end(x, n, err)
	if err != nil {
		return err
	}
	h, status := w.Header(), http.StatusOK
	if x.transfer.Method == http.MethodPut {
		status = http.StatusNoContent
	}
	info.set(h)
	(&result{cookie: m.cookie, bytes: n, etag: info.ETag, version: info.VersionID, checksum: x.checksum}).set(h)
	w.WriteHeader(status)
	return nil
}

// run moves the data of a session.
func (s *Server) run(ctx context.Context, x *session, m *ready) (*Info, error) {
	p := x.prepare
	switch {
	case m.cookie != p.cookie:
		return nil, refusal(http.StatusForbidden, "AccessDenied", "the cookie is another transfer's")
	case m.qpn != p.token.qpn:
		return nil, violation("the queue pair is not that of the first request")
	case m.addr+uint64(x.size) < m.addr:
		return nil, violation("%d bytes at %#x", x.size, m.addr)
	}
	moving, cancel := context.WithTimeout(ctx, s.cfg.TransferTimeout)
	defer cancel()
	data := (*x.memory)[:x.size]
	if p.op == http.MethodGet {
		if x.transfer.Header.Get(checksumMode) == "ENABLED" {
			x.checksum = crc64Of(data)
		}
		if err := x.pair.write(x.mr, len(data), m.addr, m.rkey, p.cookie); err != nil {
			return nil, err
		}
		_, err := x.pair.wait(moving)
		return x.info, err
	}
	n, err := x.pair.arrival(moving, p.cookie)
	if err != nil {
		return nil, err
	}
	if n != x.size {
		return nil, violation("%d bytes have arrived, want %d", n, x.size)
	}
	return s.keep(ctx, x, data)
}

// keep checks and stores the data of a PUT.
func (s *Server) keep(ctx context.Context, x *session, data []byte) (*Info, error) {
	// The client can't write any more. The queue pair stays for a while, to acknowledge what has arrived.
	if err := x.mr.Close(); err != nil {
		return nil, err
	}
	x.mr = nil
	if name := checkSums(x.transfer.Header, data); name != "" {
		return nil, refusal(http.StatusBadRequest, "BadDigest", "the data do not match %s", name)
	}
	x.checksum = x.transfer.Header.Get(checksumCRC64)
	return s.cfg.Store(ctx, x.transfer, data)
}

// serveCancel ends a transfer. It succeeds if there is none.
func (s *Server) serveCancel(w http.ResponseWriter, r *http.Request) error {
	f := &fields{header: r.Header}
	id := f.session()
	if f.err != nil {
		return f.err
	}
	x, err := s.find(r, id)
	if err != nil {
		return err
	}
	if x != nil && s.claim(x) {
		s.end(x, 0, fmt.Errorf("the client has given up: %w", context.Canceled))
	} else if x != nil {
		x.cancel()
		select {
		case <-x.ended:
		case <-r.Context().Done():
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
