package s3rdma

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestPutGet moves objects of 1 byte to 64 MiB both ways.
func TestPutGet(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		// A busy machine may need longer than a minute for 64 MiB.
		_, url := w.serve(func(c *ServerConfig) { c.PrepareTimeout, c.TransferTimeout = time.Hour, time.Hour })
		c := w.transport(func(c *TransportConfig) { c.Timeout = time.Hour })
		sizes := []int{1, 64 << 10, 1<<20 + 1}
		if !testing.Short() && !strings.HasSuffix(t.Name(), "erdma-roce") {
			sizes = append(sizes, 64<<20)
		}
		for i, n := range sizes {
			want := fill(n, i)
			resp, _ := w.do(c, w.request(http.MethodPut, url+"/bucket/a%20key/ü", want))
			if resp.StatusCode != http.StatusOK || resp.Header.Get("ETag") != etag(want) || resp.Header.Get("X-Amz-Version-Id") != "7" {
				t.Errorf("%d bytes: %v %v", n, resp.Status, resp.Header)
			}
			if !bytes.Equal(w.object("bucket/a key/ü"), want) {
				t.Errorf("%d bytes: other data arrived", n)
			}
			buf := make([]byte, n)
			resp, got := w.do(c, w.request(http.MethodGet, url+"/bucket/a%20key/ü", buf))
			if resp.StatusCode != http.StatusOK || resp.ContentLength != int64(n) || resp.Header.Get("ETag") != etag(want) || !bytes.Equal(buf, want) || !bytes.Equal(got, want) {
				t.Errorf("%d bytes: %v %v", n, resp.Status, resp.Header)
			}
		}
		if s := c.Stats(); s.Puts != uint64(len(sizes)) || s.Gets != s.Puts || s.Plain+s.Failed != 0 || len(w.plain) > 0 {
			t.Errorf("%+v, %v", s, w.plain)
		}
		if left := w.fabric.Host(0).Device(0).Objects(); strings.Contains(strings.Join(left, " "), "MR") || strings.Contains(strings.Join(left, " "), "QP") {
			t.Errorf("the client keeps %v", left)
		}
	})
}

// TestRange gets parts of an object, and an object that is smaller than the buffer.
func TestRange(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	_, url := w.serve(nil)
	c := w.transport(nil)
	object := fill(10000, 0)
	w.put("b/k", object)
	for _, test := range []struct {
		asked      string
		from, to   int
		status     int
		reportsHow string
	}{
		{"bytes=0-9999", 0, 10000, http.StatusPartialContent, "bytes 0-9999/10000"},
		{"bytes=5000-5000", 5000, 5001, http.StatusPartialContent, "bytes 5000-5000/10000"},
		{"bytes=9000-11000", 9000, 10000, http.StatusPartialContent, "bytes 9000-9999/10000"},
		{"", 0, 10000, http.StatusOK, ""},
	} {
		buf := make([]byte, 20000)
		req := w.request(http.MethodGet, url+"/b/k", buf, "Range", test.asked)
		if test.asked == "" {
			req.Header.Del("Range")
		}
		resp, got := w.do(c, req)
		if resp.StatusCode != test.status || resp.Header.Get("Content-Range") != test.reportsHow || !bytes.Equal(got, object[test.from:test.to]) {
			t.Errorf("%s: %v %v, %d bytes", test.asked, resp.Status, resp.Header, len(got))
		}
	}
	resp, body := w.do(c, w.request(http.MethodGet, url+"/b/k", make([]byte, 10), "Range", "bytes=10000-10009"))
	if resp.StatusCode != http.StatusRequestedRangeNotSatisfiable || !bytes.Contains(body, []byte("InvalidRange")) {
		t.Errorf("%v %s", resp.Status, body)
	}
	resp, body = w.do(c, w.request(http.MethodGet, url+"/b/other", make([]byte, 10)))
	if resp.StatusCode != http.StatusNotFound || !bytes.Contains(body, []byte("NoSuchKey")) {
		t.Errorf("%v %s", resp.Status, body)
	}
	if s := c.Stats(); s.Plain != 0 || s.Failed != 2 {
		t.Errorf("%+v", s)
	}
	// A buffer that is too small for the object, whose size the server tells.
	if _, got := w.do(c, w.request(http.MethodGet, url+"/b/k", make([]byte, 9999))); !bytes.Equal(got, object) || c.Stats().Plain != 1 {
		t.Errorf("%d bytes, %+v", len(got), c.Stats())
	}
}

// TestMultipart stores a part, which the query of the target says.
func TestMultipart(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	_, url := w.serve(nil)
	c := w.transport(nil)
	part := fill(1<<20, 3)
	w.do(c, w.request(http.MethodPut, url+"/b/k?partNumber=2&uploadId=a+b%2Fc&x-id=UploadPart", part))
	if !bytes.Equal(w.object("b/kpartNumber=2&uploadId=a+b%2Fc"), part) || c.Stats().Puts != 1 {
		t.Errorf("%+v", c.Stats())
	}
}

// TestChecksums has the server check what has arrived, and the client what it gets.
func TestChecksums(t *testing.T) {
	for name, want := range map[string]string{checksumCRC64: "rosUhgp5mIg=", checksumCRC32C: "4waSgw==", checksumCRC32: "y/Q5Jg=="} {
		if sum := checksums[name]([]byte("123456789")); sum != want {
			t.Errorf("%s: %s, want %s", name, sum, want)
		}
	}
	w := newWorld(t, devices["rxe"])
	_, url := w.serve(nil)
	c := w.transport(nil)
	data := fill(100000, 1)
	for name, sum := range checksums {
		resp, _ := w.do(c, w.request(http.MethodPut, url+"/b/"+name, data, name, sum(data)))
		if resp.StatusCode != http.StatusOK || !bytes.Equal(w.object("b/"+name), data) {
			t.Errorf("%s: %v", name, resp.Status)
		}
		resp, body := w.do(c, w.request(http.MethodPut, url+"/b/bad", data, name, sum(data[1:])))
		if resp.StatusCode != http.StatusBadRequest || !bytes.Contains(body, []byte("BadDigest")) || w.object("b/bad") != nil {
			t.Errorf("%s: %v %s", name, resp.Status, body)
		}
	}
	resp, got := w.do(c, w.request(http.MethodGet, url+"/b/"+checksumCRC64, make([]byte, len(data)), checksumMode, "ENABLED"))
	if resp.Header.Get(checksumCRC64) != crc64Of(data) || !bytes.Equal(got, data) {
		t.Errorf("%v", resp.Header)
	}
}

// TestPlain lists what goes by plain HTTP, and why.
func TestPlain(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	_, url := w.serve(nil)
	c := w.transport(nil)
	data := fill(100, 0)
	w.put("b/k", data)
	for _, test := range []struct {
		req  *http.Request
		want string
	}{
		{w.request(http.MethodPut, url+"/b/k", data, "X-Amz-Meta-Colour", "red"), `"X-Amz-Meta-Colour"`},
		{w.request(http.MethodPut, url+"/b/k", data, "Content-Type", "text/plain"), `"Content-Type"`},
		{w.request(http.MethodPut, url+"/b/k", data, checksumPrefix+"Sha256", "x"), `"X-Amz-Checksum-Sha256"`},
		{w.request(http.MethodPut, url+"/b/k", nil), "0 bytes"},
		{w.request(http.MethodGet, url+"/b/k", data, "If-Match", "x"), `"If-Match"`},
		{w.request(http.MethodGet, url+"/b/k", data, "Range", "bytes=-5"), "no beginning"},
		{w.request(http.MethodGet, url+"/b/k", data, "Range", "bytes=5-"), "no end"},
		{w.request(http.MethodGet, url+"/b/k", data, "Range", "bytes=0-1,3-4"), "no end"},
		{w.request(http.MethodGet, url+"/b/k", data, "Range", "bytes=0-100"), "does not fit"},
		{w.request(http.MethodGet, url+"/b/", data), "want /bucket/key"},
		{w.request(http.MethodGet, url+"/b/k?X-Amz-Signature=1", data), "signed in its query"},
	} {
		before := c.Stats().Plain
		w.do(c, test.req)
		if s := c.Stats(); s.Plain != before+1 || s.Reason == nil || !strings.Contains(s.Reason.Error(), test.want) {
			t.Errorf("%v, want %s", s.Reason, test.want)
		}
	}
	_, url = w.serve(func(c *ServerConfig) { c.MaxTransfer = 99 })
	for _, method := range []string{http.MethodPut, http.MethodGet} { // the server answers 413 first
		if w.do(c, w.request(method, url+"/b/k", data)); !strings.Contains(c.Stats().Reason.Error(), "413") {
			t.Errorf("%v", c.Stats().Reason)
		}
	}
	body := w.request(http.MethodPut, url+"/b/k", data)
	body.Body, body.ContentLength = http.NoBody, 5
	if _, err := planOf(body, data); !errors.As(err, new(declined)) || !strings.Contains(err.Error(), "a body of 5 bytes") {
		t.Error(err)
	}
	chunked := w.request(http.MethodPut, url+"/b/k", data, "Content-Encoding", "aws-chunked", "X-Amz-Decoded-Content-Length", "100", "X-Amz-Trailer", checksumCRC32,
		"Amz-Sdk-Request", "attempt=1")
	if _, err := planOf(chunked, data); err != nil {
		t.Error(err)
	}
	if s := c.Stats(); s.Puts+s.Gets+s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}

// TestUnsupported asks servers that don't speak the protocol.
func TestUnsupported(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	for status, remembered := range map[int]bool{http.StatusMethodNotAllowed: true, http.StatusNotImplemented: true, http.StatusNotFound: false,
		http.StatusForbidden: false, http.StatusOK: false} {
		asked := 0
		url := w.listen(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				asked++
				rw.WriteHeader(status)
				return
			}
			w.ServeHTTP(rw, r)
		}))
		c := w.transport(nil)
		data := fill(1000, status)
		w.do(c, w.request(http.MethodPut, url+"/b/k", data))
		_, got := w.do(c, w.request(http.MethodGet, url+"/b/k", make([]byte, 1000)))
		if s := c.Stats(); !bytes.Equal(got, data) || s.Plain != 2 || s.Reason == nil || (asked == 1) != remembered {
			t.Errorf("%d: %+v, asked %d times", status, s, asked)
		}
	}
}

func TestWithoutBuffer(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	_, url := w.serve(nil)
	c := w.transport(nil)
	w.put("b/k", []byte("x"))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/b/k", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, got := w.do(c, req); string(got) != "x" || c.Stats() != (TransportStats{}) {
		t.Errorf("%s %+v", got, c.Stats())
	}
}
