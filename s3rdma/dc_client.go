package s3rdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// offer sends a request with a token, through which the server moves the data.
func (t *Transport) offer(ctx context.Context, req *http.Request, b []byte) (resp *http.Response, err error) {
	put := req.Method == http.MethodPut
	switch length, err := bodyLength(req); {
	case err != nil:
		return nil, declined{err}
	case len(b) == 0 || uint64(len(b)) > math.MaxUint32:
		return nil, decline("a buffer of %d bytes, want 1 to %d", len(b), uint32(math.MaxUint32))
	case put && length != int64(len(b)):
		return nil, decline("a body of %d bytes, but a buffer of %d", length, len(b))
	}
	if first, last, err := parseRange(req.Header.Get("Range")); err == nil && !put && last-first < int64(len(b)) {
		b = b[:last-first+1] // a server can neither write more nor report more
	}
	access, local := verbs.AccessRemoteWrite, verbs.AccessLocalWrite|verbs.AccessRemoteWrite
	if put {
		access, local = verbs.AccessRemoteRead, verbs.AccessRemoteRead
	}
	target, err := t.side.openTarget(access, t.cfg.DCKey)
	if err != nil {
		return nil, err
	}
	var mr *uverbs.MR
	defer func() { // before the caller may use the buffer again, a late write included
		errs := []error{err, target.close()}
		if mr != nil {
			errs = append(errs, mr.Close())
		}
		err = errors.Join(errs...)
	}()
	if mr, err = t.side.PD.RegMR(b, local); err != nil {
		return nil, err
	}
	token := dcToken{addr: mr.Addr(), length: uint32(len(b)), rkey: mr.RKey(), target: target.qp.QPN(), gid: target.gid.GID}
	// A server that ignores the token takes the body for the object. It has no bytes, and another checksum.
	// S3 refuses two checksums, so the caller's is as good.
	r := withToken(ctx, req, &token)
	name := checksumCRC64
	if own := checksumsOf(r.Header); len(own) > 0 {
		name = own[0]
	} else if put {
		r.Header.Set(name, crc64Of(b))
	}
	if err := t.cfg.Sign(r); err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	if resp, err = t.cfg.Base.RoundTrip(r); err != nil {
		return nil, err
	}
	resp.Request = req
	if put {
		return judgePut(resp, name, r.Header.Get(name), len(b))
	}
	return judgeGet(resp, b)
}

// withToken returns the request that offers a token instead of a body.
func withToken(ctx context.Context, req *http.Request, token *dcToken) *http.Request {
	r := req.Clone(ctx)
	r.Body, r.ContentLength, r.GetBody = nil, 0, nil
	for _, name := range []string{"Authorization", "Content-Length", "Content-Md5", "Expect", "X-Amz-Trailer", "X-Amz-Decoded-Content-Length", "X-Amz-Sdk-Checksum-Algorithm"} {
		r.Header.Del(name)
	}
	if r.Header.Get("Content-Encoding") == "aws-chunked" {
		r.Header.Del("Content-Encoding")
	}
	r.Header.Set(headerToken, token.String())
	r.Header.Set(headerSHA256, unsignedPayload)
	return r
}

// moved reports whether the server says that it has moved the data. Some append more to the number.
func moved(h http.Header) bool {
	reply, _, _ := strings.Cut(h.Get(headerReply), ":")
	return reply == "200" || reply == "204" || reply == "206"
}

// judgePut returns the response only if the object has been stored. Otherwise plain HTTP stores it, or says what is
// wrong: a server that ignores tokens may have stored an object without bytes, or found its checksum wrong.
func judgePut(resp *http.Response, name, sum string, size int) (*http.Response, error) {
	silent := resp.Header.Get(headerReply) == ""
	// Not all servers report the number of bytes.
	part := resp.Header[headerBytes] != nil && resp.Header.Get(headerBytes) != strconv.Itoa(size)
	if !part && resp.StatusCode < http.StatusMultipleChoices && (moved(resp.Header) || silent && resp.Header.Get(name) == sum) {
		return resp, nil
	}
	resp.Body.Close()
	return nil, decline("the server answered %s and %s: it has not taken the data by RDMA", quote(resp.Status), quote(resp.Header.Get(headerReply)))
}

// judgeGet returns the response. Its body is in the buffer if the server has written it there, and comes from the
// network otherwise.
func judgeGet(resp *http.Response, b []byte) (*http.Response, error) {
	if resp.StatusCode >= http.StatusMultipleChoices || !moved(resp.Header) {
		if resp.StatusCode == http.StatusNotImplemented {
			resp.Body.Close()
			return nil, decline("the server answered %s", quote(resp.Status))
		}
		return resp, nil
	}
	defer resp.Body.Close()
	f := &fields{header: resp.Header}
	n := f.decimal(headerBytes, int64(len(b)))
	if f.err != nil {
		return nil, f.err
	}
	data := b[:n]
	if want := resp.Header.Get(checksumCRC64); want != "" && resp.StatusCode == http.StatusOK && want != crc64Of(data) {
		return nil, violation("the checksum is %s, the server's %s", crc64Of(data), quote(want))
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(data)), n
	resp.Header.Set("Content-Length", fmt.Sprint(n))
	return resp, nil
}
