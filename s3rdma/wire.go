package s3rdma

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/verbs"
)

const (
	protocol   = "hipobj-rc-v2"
	pathPrefix = "/.hipobj-rc/"

	headerProtocol = "X-Amz-Rdma-Protocol"
	headerStatus   = "X-Amz-Rdma-Protocol-Status"
	headerToken    = "X-Amz-Rdma-Token"
	headerPSN      = "X-Amz-Rdma-Psn"
	headerCookie   = "X-Amz-Rdma-Cookie"
	headerOp       = "X-Amz-Rdma-Op"
	headerTarget   = "X-Amz-Rdma-Target"
	headerSize     = "X-Amz-Rdma-Size"
	headerOffset   = "X-Amz-Rdma-Offset"
	headerSession  = "X-Amz-Rdma-Session"
	headerQPN      = "X-Amz-Rdma-Qpn"
	headerAddr     = "X-Amz-Rdma-Mr-Addr"
	headerKey      = "X-Amz-Rdma-Mr-Rkey"
	headerReply    = "X-Amz-Rdma-Reply"
	headerBytes    = "X-Amz-Rdma-Bytes-Transferred"
	headerETag     = "X-Amz-Rdma-Etag"
	headerVersion  = "X-Amz-Rdma-Version-Id"
	headerChecksum = "X-Amz-Rdma-Checksum"

	// This package's own additions to the protocol, all in answers. Other clients ignore them.
	headerObjectSize = "X-Amz-Rdma-Object-Size" // of a GET: the size of the whole object
	headerConnected  = "X-Amz-Rdma-Connected"   // "1": the server's queue pair is ready, so a client need not wait before it writes

	unsupported = "unsupported"

	// MaxSize is the largest number of bytes of one transfer.
	MaxSize = math.MaxInt32

	max24Bits   = 1<<24 - 1
	maxTarget   = 8 << 10
	sessionSize = 16 // bytes
)

// ErrProtocol means that the other side broke the protocol.
var ErrProtocol = errors.New("not of the protocol " + protocol)

func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// token is the address of a queue pair, and of memory. On the wire it has 44 bytes in hexadecimal digits, with
// little-endian integers.
type token struct {
	qpn    uint32
	gid    verbs.GID
	rkey   uint32 // this and the next two are 0 in a client's token
	addr   uint64
	length uint64
	port   uint8
}

const (
	tokenSize   = 44
	transportRC = 1
)

func (t *token) String() string {
	b := append(make([]byte, 0, tokenSize), transportRC)
	b = binary.LittleEndian.AppendUint32(b, t.qpn)
	b = append(b, t.gid[:]...)
	b = binary.LittleEndian.AppendUint32(b, t.rkey)
	b = binary.LittleEndian.AppendUint64(b, t.addr)
	b = binary.LittleEndian.AppendUint64(b, t.length)
	return hex.EncodeToString(append(b, t.port, 0, 0)) // the LID is 0: the protocol is for RoCE
}

// parseToken parses a token. Clients may append an address and a size, which this protocol does not use.
func parseToken(s string) (t token, err error) {
	digits, appended, extended := strings.Cut(s, ":")
	if extended {
		addr, size, ok := strings.Cut(appended, ":")
		if _, err := parseHex(addr, 64); !ok || err != nil {
			return t, violation("the token has a strange address after it")
		}
		if _, err := parseHex(size, 64); err != nil {
			return t, violation("the token has a strange size after it")
		}
	}
	if len(digits) != 2*tokenSize {
		return t, violation("the token has %d characters, want %d", len(digits), 2*tokenSize)
	}
	b, err := hex.DecodeString(digits)
	if err != nil {
		return t, violation("the token is not hexadecimal")
	}
	t.qpn = binary.LittleEndian.Uint32(b[1:])
	t.gid = verbs.GID(b[5:])
	t.rkey = binary.LittleEndian.Uint32(b[21:])
	t.addr = binary.LittleEndian.Uint64(b[25:])
	t.length = binary.LittleEndian.Uint64(b[33:])
	t.port = b[41]
	switch {
	case b[0] != transportRC:
		return t, violation("the token is for transport %d, want %d (RC)", b[0], transportRC)
	case t.qpn == 0 || t.qpn > max24Bits:
		return t, violation("the token has queue pair number %#x", t.qpn)
	case t.gid == verbs.GID{} || t.gid.IsMulticast():
		return t, violation("the token has GID %v", t.gid)
	case t.addr+t.length < t.addr:
		return t, violation("the token has %d bytes at %#x", t.length, t.addr)
	}
	return t, nil
}

// parseHex parses a number without sign, prefix and underscores.
func parseHex(s string, bits int) (uint64, error) {
	n, err := strconv.ParseUint(s, 16, bits)
	if err != nil || len(s) > 16 || s[0] == '+' {
		return 0, violation("%s is no hexadecimal number of %d bits", quote(s), bits)
	}
	return n, nil
}

func parseDecimal(s string, most int64) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > most || s[0] == '+' || s[0] == '-' {
		return 0, violation("%s is no number from 0 to %d", quote(s), most)
	}
	return n, nil
}

// quote returns a peer's text for an error.
func quote(s string) string { return strconv.Quote(s[:min(len(s), 40)]) }

// fields reads the headers of a message. It keeps the first error.
type fields struct {
	header http.Header
	err    error
}

func (f *fields) fail(name string, err error) {
	if f.err == nil {
		f.err = fmt.Errorf("header %s: %w", strings.ToLower(name), err)
	}
}

// text returns a header, which must occur once.
func (f *fields) text(name string) string {
	values := f.header[name]
	if len(values) != 1 {
		f.fail(name, violation("it occurs %d times", len(values)))
		return ""
	}
	return values[0]
}

func (f *fields) hex(name string, bits int) uint64 {
	s := f.text(name)
	if f.err != nil {
		return 0
	}
	n, err := parseHex(s, bits)
	if err != nil {
		f.fail(name, err)
	}
	return n
}

func (f *fields) hex32(name string) uint32 { return uint32(f.hex(name, 32)) }

// digits returns a hexadecimal number of exactly n digits, which is not 0.
func (f *fields) digits(name string, n int) uint32 {
	s := f.text(name)
	v := f.hex32(name)
	if f.err == nil && (len(s) != n || v == 0) {
		f.fail(name, violation("%s, want %d hexadecimal digits that are not all 0", quote(s), n))
	}
	return v
}

func (f *fields) decimal(name string, most int64) int64 {
	s := f.text(name)
	if f.err != nil {
		return 0
	}
	n, err := parseDecimal(s, most)
	if err != nil {
		f.fail(name, err)
	}
	return n
}

// session returns the number of a session, in lower case.
func (f *fields) session() string {
	s := strings.ToLower(f.text(headerSession))
	if b, err := hex.DecodeString(s); f.err == nil && (err != nil || len(b) != sessionSize) {
		f.fail(headerSession, violation("%s, want %d hexadecimal digits", quote(s), 2*sessionSize))
	}
	return s
}

func (f *fields) token(name, prefix string) token {
	s, ok := strings.CutPrefix(f.text(name), prefix)
	if f.err != nil {
		return token{}
	}
	if !ok {
		f.fail(name, violation("it does not begin with %s", prefix))
		return token{}
	}
	t, err := parseToken(s)
	if err != nil {
		f.fail(name, err)
	}
	return t
}

// prepare is the client's first message.
type prepare struct {
	token  token
	psn    uint32
	cookie uint32
	op     string // GET or PUT
	target string
	size   int64
	offset int64
}

func (p *prepare) set(h http.Header) {
	h.Set(headerToken, p.token.String())
	h.Set(headerPSN, fmt.Sprintf("%06x", p.psn))
	h.Set(headerCookie, fmt.Sprintf("%08x", p.cookie))
	h.Set(headerOp, p.op)
	h.Set(headerTarget, p.target)
	h.Set(headerSize, strconv.FormatInt(p.size, 10))
	h.Set(headerOffset, strconv.FormatInt(p.offset, 10))
}

func parsePrepare(h http.Header) (*prepare, error) {
	f := &fields{header: h}
	p := &prepare{token: f.token(headerToken, ""), psn: f.digits(headerPSN, 6), cookie: f.digits(headerCookie, 8), op: f.text(headerOp),
		target: f.text(headerTarget), size: f.decimal(headerSize, MaxSize)}
	if h[headerOffset] != nil {
		p.offset = f.decimal(headerOffset, math.MaxInt64)
	}
	switch {
	case f.err != nil:
		return nil, f.err
	case p.op != http.MethodGet && p.op != http.MethodPut:
		f.fail(headerOp, violation("%s, want GET or PUT", quote(p.op)))
	case p.size == 0:
		f.fail(headerSize, violation("it is 0"))
	case p.offset > math.MaxInt64-p.size, p.op == http.MethodPut && p.offset != 0:
		f.fail(headerOffset, violation("%d, with %s of %d bytes", p.offset, p.op, p.size))
	}
	return p, f.err
}

// parseTarget parses "/bucket/key?query", percent-encoded.
func parseTarget(s string) (bucket, key string, query url.Values, err error) {
	bad := func(why string) (string, string, url.Values, error) {
		return "", "", nil, violation("target %s: %s", quote(s), why)
	}
	if len(s) > maxTarget {
		return bad("it is too long")
	}
	path, raw, _ := strings.Cut(s, "?")
	b, k, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if !ok || !strings.HasPrefix(path, "/") || b == "" || k == "" {
		return bad("want /bucket/key")
	}
	if bucket, err = url.PathUnescape(b); err == nil {
		key, err = url.PathUnescape(k)
	}
	if err == nil {
		query, err = url.ParseQuery(raw)
	}
	if err != nil || strings.ContainsAny(bucket, "/\x00") || strings.Contains(key, "\x00") {
		return bad("it is not percent-encoded text")
	}
	return bucket, key, query, nil
}

// prepared is the server's answer to a prepare.
type prepared struct {
	token      token
	session    string
	psn        uint32
	addr       uint64 // of the staging memory of a PUT
	rkey       uint32
	connected  bool
	target     string // the target of the prepare, if the server respects its query
	objectSize int64  // of a GET, or -1
}

func (p *prepared) set(h http.Header) {
	h.Set(headerReply, "200:"+p.token.String())
	h.Set(headerSession, p.session)
	h.Set(headerPSN, fmt.Sprintf("%06x", p.psn))
	h.Set(headerQPN, strconv.FormatUint(uint64(p.token.qpn), 16))
	h.Set(headerAddr, strconv.FormatUint(p.addr, 16))
	h.Set(headerKey, strconv.FormatUint(uint64(p.rkey), 16))
	h.Set(headerConnected, "1")
	h.Set(headerTarget, p.target)
	if p.objectSize >= 0 {
		h.Set(headerObjectSize, strconv.FormatInt(p.objectSize, 10))
	}
}

func parsePrepared(h http.Header, op string) (*prepared, error) {
	f := &fields{header: h}
	p := &prepared{token: f.token(headerReply, "200:"), session: f.session(), psn: f.digits(headerPSN, 6), objectSize: -1,
		connected: h.Get(headerConnected) == "1", target: h.Get(headerTarget)}
	if h[headerQPN] != nil && f.hex32(headerQPN) != p.token.qpn {
		f.fail(headerQPN, violation("it differs from the token's"))
	}
	if op == http.MethodPut {
		p.addr, p.rkey = f.hex(headerAddr, 64), f.hex32(headerKey)
	}
	if h[headerObjectSize] != nil {
		p.objectSize = f.decimal(headerObjectSize, math.MaxInt64)
	}
	return p, f.err
}

// ready is the client's second message.
type ready struct {
	session string
	cookie  uint32
	qpn     uint32
	addr    uint64 // of the memory of a GET
	rkey    uint32
}

func (r *ready) set(h http.Header) {
	h.Set(headerSession, r.session)
	h.Set(headerCookie, fmt.Sprintf("%08x", r.cookie))
	h.Set(headerQPN, strconv.FormatUint(uint64(r.qpn), 16))
	h.Set(headerAddr, strconv.FormatUint(r.addr, 16))
	h.Set(headerKey, strconv.FormatUint(uint64(r.rkey), 16))
}

func parseReady(h http.Header) (*ready, error) {
	f := &fields{header: h}
	r := &ready{session: f.session(), cookie: f.digits(headerCookie, 8), qpn: f.hex32(headerQPN), addr: f.hex(headerAddr, 64), rkey: f.hex32(headerKey)}
	return r, f.err
}

// result is the server's answer to a ready.
type result struct {
	cookie   uint32
	bytes    int64
	etag     string
	version  string
	checksum string // CRC64NVME in base64, or empty
}

const crc64Prefix = "CRC64NVME "

func (r *result) set(h http.Header) {
	h.Set(headerCookie, fmt.Sprintf("%08x", r.cookie))
	h.Set(headerBytes, strconv.FormatInt(r.bytes, 10))
	for name, value := range map[string]string{headerETag: r.etag, headerVersion: r.version} {
		if value != "" {
			h.Set(name, value)
		}
	}
	if r.checksum != "" {
		h.Set(headerChecksum, crc64Prefix+r.checksum)
	}
}

func parseResult(h http.Header) (*result, error) {
	f := &fields{header: h}
	r := &result{cookie: f.digits(headerCookie, 8), bytes: f.decimal(headerBytes, MaxSize), etag: h.Get(headerETag), version: h.Get(headerVersion)}
	if c := h.Get(headerChecksum); c != "" {
		var ok bool
		if r.checksum, ok = strings.CutPrefix(c, crc64Prefix); !ok {
			f.fail(headerChecksum, violation("%s", quote(c)))
		}
	}
	return r, f.err
}
