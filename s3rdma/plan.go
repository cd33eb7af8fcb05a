package s3rdma

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// plan is what a request asks for, in the protocol's terms.
type plan struct {
	put    bool
	data   []byte
	path   string // percent-encoded
	query  url.Values
	ranged bool
	offset int64
	header http.Header // goes along with the first message
}

func (p *plan) target() string {
	if len(p.query) == 0 {
		return p.path
	}
	return p.path + "?" + strings.ReplaceAll(p.query.Encode(), "+", "%20")
}

// planOf returns an error if the protocol can't express the request.
func planOf(req *http.Request, b []byte) (*plan, error) {
	p := &plan{put: req.Method == http.MethodPut, data: b, path: encodePath(req.URL.Path), query: req.URL.Query(), header: make(http.Header)}
	p.query.Del("x-id") // an SDK's name for the operation
	if p.query.Has("X-Amz-Signature") {
		return nil, decline("the request is signed in its query")
	}
	if _, _, _, err := parseTarget(p.target()); err != nil {
		return nil, declined{err}
	}
	if len(b) == 0 || len(b) > MaxSize {
		return nil, decline("a buffer of %d bytes, want 1 to %d", len(b), MaxSize)
	}
	for name, values := range req.Header {
		if err := p.addHeader(name, values); err != nil {
			return nil, err
		}
	}
	switch length, err := bodyLength(req); {
	case err != nil:
		return nil, declined{err}
	case p.put && length != int64(len(b)):
		return nil, decline("a body of %d bytes, but a buffer of %d", length, len(b))
	}
	return p, nil
}

// bodyLength returns the length of the content, which an SDK may have divided into chunks.
func bodyLength(req *http.Request) (int64, error) {
	if text := req.Header.Get("X-Amz-Decoded-Content-Length"); text != "" {
		return parseDecimal(text, math.MaxInt64)
	}
	return req.ContentLength, nil
}

// addHeader passes on a header that the protocol has, and ignores those that don't matter to it. The rest would be
// lost.
func (p *plan) addHeader(name string, values []string) error {
	name = http.CanonicalHeaderKey(name)
	switch value := values[0]; name {
	case checksumCRC64, checksumCRC32C, checksumCRC32, checksumMode:
		p.header.Set(name, value)
		return nil
	case "Range":
		if !p.put {
			return p.setRange(value)
		}
	case "Content-Type":
		if value == "application/octet-stream" || value == "binary/octet-stream" || !p.put {
			return nil
		}
	case "Content-Encoding":
		if value == "aws-chunked" { // of the plain body
			return nil
		}
	case "Accept", "Accept-Encoding", "Authorization", "Content-Length", "Expect", "Transfer-Encoding", "User-Agent", "X-Amz-Content-Sha256", "X-Amz-Date",
		"X-Amz-Decoded-Content-Length", "X-Amz-Sdk-Checksum-Algorithm", "X-Amz-Security-Token", "X-Amz-Trailer", "X-Amz-User-Agent":
		return nil
	}
	if strings.HasPrefix(name, "Amz-Sdk-") {
		return nil
	}
	return decline("%s can't carry the header %s", protocol, quote(name))
}

// parseRange parses a range with a beginning and an end.
func parseRange(value string) (first, last int64, err error) {
	from, to, _ := strings.Cut(strings.TrimPrefix(value, "bytes="), "-")
	first, err1 := parseDecimal(cmp.Or(from, "x"), math.MaxInt64)
	last, err2 := parseDecimal(cmp.Or(to, "x"), math.MaxInt64-1)
	if !strings.HasPrefix(value, "bytes=") || err1 != nil || err2 != nil || last < first {
		return 0, 0, fmt.Errorf("the range %s has no beginning or no end", quote(value))
	}
	return first, last, nil
}

func (p *plan) setRange(value string) error {
	first, last, err := parseRange(value)
	if err != nil {
		return declined{err}
	}
	if last-first >= int64(len(p.data)) {
		return decline("the range %s does not fit into a buffer of %d bytes", quote(value), len(p.data))
	}
	p.ranged, p.offset, p.data = true, first, p.data[:last-first+1]
	return nil
}

// response returns the response to the request, as if it had come by plain HTTP.
func (p *plan) response(req *http.Request, from http.Header, r *result, objectSize int64) *http.Response {
	h := make(http.Header)
	for _, name := range []string{"Date", "Server", "Last-Modified", "Content-Type", "X-Amz-Request-Id", headerProtocol, headerBytes} {
		if v := from.Values(name); len(v) > 0 {
			h[name] = v
		}
	}
	for name, value := range map[string]string{"Etag": r.etag, "X-Amz-Version-Id": r.version, checksumCRC64: r.checksum} {
		if value != "" {
			h.Set(name, value)
		}
	}
	status, body := http.StatusOK, p.data[:0]
	if !p.put {
		body = p.data[:r.bytes]
		total := "*"
		if objectSize >= 0 {
			total = strconv.FormatInt(objectSize, 10)
		}
		// An object that fills the buffer may be longer if the server does not report its size.
		if p.ranged || objectSize < 0 && len(body) == len(p.data) {
			status = http.StatusPartialContent
			h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%s", p.offset, p.offset+r.bytes-1, total))
			h.Del(checksumCRC64) // SDKs take it for that of the whole object
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	return &http.Response{Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req}
}

const upperHex = "0123456789ABCDEF"

// encode percent-encodes as SigV4 does: all but unreserved characters, and perhaps slashes.
func encode(s string, slashes bool) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', strings.IndexByte("-._~", c) >= 0, c == '/' && slashes:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', upperHex[c>>4], upperHex[c&15]})
		}
	}
	return b.String()
}

func encodePath(path string) string { return encode(path, true) }
