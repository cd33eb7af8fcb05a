package s3rdma

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/goverbs/goverbs/verbs"
)

// errDeclined means that the server moves nothing by RDMA, and has not begun to.
var errDeclined = errors.New("declined")

// serveToken answers a request of cuObject's protocol.
func (s *Server) serveToken(w http.ResponseWriter, r *http.Request) error {
	if v := r.Header.Get(headerAgent); v != "" && v != agent {
		return violation("the agent is %s, want %s", quote(v), agent)
	}
	err := errDeclined
	if s.cfg.DCKey != 0 {
		err = s.exchange(w, r)
	}
	if !errors.Is(err, errDeclined) {
		return err
	}
	w.Header().Set(headerReply, strconv.Itoa(http.StatusNotImplemented))
	if r.Method == http.MethodGet && s.cfg.Next != nil {
		s.cfg.Next.ServeHTTP(w, r)
		return nil
	}
	// The next handler would store an object without bytes.
	return refusal(http.StatusNotImplemented, "NotImplemented", "not by RDMA")
}

// exchange moves the data of a request with a token.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request) error {
	f := &fields{header: r.Header}
	text := f.text(headerToken)
	if f.err != nil {
		return f.err
	}
	token, err := parseDCToken(text)
	if err != nil {
		return err
	}
	t := &Transfer{Method: r.Method, Size: int64(token.length), Header: r.Header}
	if t.Bucket, t.Key, t.Query, err = parseTarget(r.URL.RequestURI()); err != nil {
		return err
	}
	t.Query.Del("x-id") // an SDK's name for the operation
	last := int64(-1)
	if ranged := r.Header.Get("Range"); r.Method == http.MethodPut && r.ContentLength != 0 {
		return violation("a body of %d bytes beside the token", r.ContentLength)
	} else if slices.ContainsFunc(checksumsOf(r.Header), func(name string) bool { return checksums[name] == nil }) {
		return errDeclined // nothing here can check it
	} else if ranged != "" && r.Method == http.MethodGet {
		if t.Offset, last, err = parseRange(ranged); err != nil {
			return errDeclined
		}
		t.Size = min(t.Size, last-t.Offset+1)
	}
	principal, err := s.cfg.Authorize(r, t)
	if err == nil {
		err = s.cfg.AllowPeer(r, token.gid.Addr())
	}
	if err != nil {
		s.done(t, 0, err)
		return err
	}
	x := s.newSession(principal, t)
	if err := s.admit(x); err != nil {
		x.cancel()
		s.done(t, 0, err)
		return err
	}
	free := sync.OnceFunc(func() { s.free(x) })
	defer free() // a function of the program may panic, from which net/http recovers
	ctx, cancel := during(r.Context(), x)
	info, err := s.moveByToken(ctx, x, &token, last)
	cancel()
	n := x.size
	if err != nil {
		n = 0
	}
	free()
	s.done(t, n, err)
	if err != nil {
		return err
	}
	status := http.StatusOK
	h := w.Header()
	if last >= 0 {
		status = http.StatusPartialContent
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", t.Offset, t.Offset+n-1, info.Size))
	}
	info.set(h)
	h.Set("Etag", info.ETag)
	for name, value := range map[string]string{"X-Amz-Version-Id": info.VersionID, checksumCRC64: x.checksum} {
		if value != "" {
			h.Set(name, value)
		}
	}
	h.Set(headerReply, strconv.Itoa(status))
	h.Set(headerBytes, strconv.FormatInt(n, 10))
	h.Set("Content-Length", "0")
	w.WriteHeader(status)
	return nil
}

// moveByToken reads the client's memory and stores it, or writes an object into it. last is the end of the range of a
// GET, or -1.
func (s *Server) moveByToken(ctx context.Context, x *session, token *dcToken, last int64) (*Info, error) {
	put := x.transfer.Method == http.MethodPut
	if put && s.cfg.Store == nil || !put && s.cfg.Open == nil {
		return nil, errDeclined
	}
	op, local := verbs.OpRDMAWrite, verbs.Access(0)
	if put {
		op, local = verbs.OpRDMARead, verbs.AccessLocalWrite
		if x.size > s.cfg.MaxTransfer {
			return nil, refusal(http.StatusRequestEntityTooLarge, "EntityTooLarge", "%d bytes, the most is %d", x.size, s.cfg.MaxTransfer)
		}
		if err := s.allocate(x); err != nil {
			return nil, err
		}
	} else if err := s.load(ctx, x, token, last); err != nil {
		return nil, err
	}
	data := (*x.memory)[:x.size]
	var err error
	if x.mr, err = s.side.PD.RegMR(data, local); err != nil {
		return nil, err
	}
	if x.pair, err = s.side.openInitiator(token); err != nil {
		return nil, err
	}
	if err := x.pair.access(op, x.mr, len(data), token, s.cfg.DCKey); err != nil {
		return nil, err
	}
	moving, cancel := context.WithTimeout(ctx, s.cfg.TransferTimeout)
	defer cancel()
	if _, err := x.pair.wait(moving); err != nil {
		return nil, err
	}
	if !put {
		if last < 0 && x.transfer.Header.Get(checksumMode) == "ENABLED" {
			x.checksum = crc64Of(data)
		}
		return x.info, nil
	}
	return s.keep(ctx, x, data)
}

// load reads the object of a GET.
func (s *Server) load(ctx context.Context, x *session, token *dcToken, last int64) error {
	body, info, err := s.cfg.Open(ctx, x.transfer)
	if err != nil {
		return err
	}
	defer body.Close()
	x.info, x.size = info, info.Size-x.transfer.Offset
	if last >= 0 {
		x.size = min(x.size, last-x.transfer.Offset+1)
	}
	switch {
	case x.size <= 0 && last >= 0:
		return refusal(http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "the object has %d bytes", info.Size)
	case x.size <= 0, x.size > int64(token.length), x.size > s.cfg.MaxTransfer:
		return errDeclined // the object goes by HTTP
	}
	if err := s.allocate(x); err != nil {
		return err
	}
	_, err = io.ReadFull(body, (*x.memory)[:x.size])
	return err
}
