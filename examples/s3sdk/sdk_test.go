package main

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/s3rdma"
	"github.com/goverbs/goverbs/uverbs"
)

var creds = &s3rdma.Credentials{AccessKey: "somebody", SecretKey: "secret"}

// store keeps objects, and parts of objects, in memory.
type store struct {
	t *testing.T

	mu      sync.Mutex // guards the fields below
	objects map[string][]byte
	parts   map[string]map[int][]byte // by upload
	sums    []string                  // checksums that the server has checked
	plain   []string                  // requests for data that came by plain HTTP
}

func (s *store) authorize(r *http.Request, _ *s3rdma.Transfer) (string, error) {
	return creds.AccessKey, creds.Verify(r)
}

func (s *store) open(_ context.Context, t *s3rdma.Transfer) (io.ReadCloser, *s3rdma.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.objects[t.Bucket+"/"+t.Key]
	if !ok {
		return nil, nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(b[min(t.Offset, int64(len(b))):])), s.info(b), nil
}

func (s *store) info(b []byte) *s3rdma.Info {
	sum := md5.Sum(b)
	return &s3rdma.Info{Size: int64(len(b)), ETag: strconv.Quote(hex.EncodeToString(sum[:])), Modified: time.Unix(1e9, 0)}
}

func (s *store) store(_ context.Context, t *s3rdma.Transfer, data []byte) (*s3rdma.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range t.Header {
		if sum, ok := strings.CutPrefix(name, "X-Amz-Checksum-"); ok {
			s.sums = append(s.sums, sum)
		}
	}
	return s.keep(t.Bucket+"/"+t.Key, t.Query, bytes.Clone(data))
}

func (s *store) keep(name string, query url.Values, b []byte) (*s3rdma.Info, error) {
	if id := query.Get("uploadId"); id != "" {
		n, err := strconv.Atoi(query.Get("partNumber"))
		if err != nil || s.parts[id] == nil {
			return nil, fs.ErrNotExist
		}
		s.parts[id][n] = b
	} else {
		s.objects[name] = b
	}
	return s.info(b), nil
}

// ServeHTTP is as much of S3 by plain HTTP as the test needs.
func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, id := strings.TrimPrefix(r.URL.Path, "/"), r.URL.Query().Get("uploadId")
	var answer any
	switch {
	case r.Method == http.MethodPost && r.URL.Query().Has("uploads"):
		id = fmt.Sprintf("upload/%d?", len(s.parts)) // what must be encoded in a query
		s.parts[id] = make(map[int][]byte)
		answer = struct {
			XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
			UploadId string
		}{UploadId: id}
	case r.Method == http.MethodPost && s.parts[id] != nil:
		var all []byte
		for _, n := range slices.Sorted(maps.Keys(s.parts[id])) {
			all = append(all, s.parts[id][n]...)
		}
		s.objects[name] = all
		answer = struct {
			XMLName           xml.Name `xml:"CompleteMultipartUploadResult"`
			Bucket, Key, ETag string
		}{Bucket: name, Key: name, ETag: s.info(all).ETag}
	case r.Method == http.MethodPut:
		s.plain = append(s.plain, r.Method)
		b, err := io.ReadAll(r.Body)
		if err != nil {
			s.t.Error(err)
		}
		info, err := s.keep(name, r.URL.Query(), b)
		if err != nil {
			s.t.Error(err)
			return
		}
		w.Header().Set("ETag", info.ETag)
		return
	case s.objects[name] == nil:
		http.NotFound(w, r)
		return
	default:
		if r.Method == http.MethodGet {
			s.plain = append(s.plain, r.Method)
		}
		w.Header().Set("ETag", s.info(s.objects[name]).ETag)
		http.ServeContent(w, r, "", time.Unix(1e9, 0), bytes.NewReader(s.objects[name]))
		return
	}
	w.Header().Set("Content-Type", "application/xml")
	if err := xml.NewEncoder(w).Encode(answer); err != nil {
		s.t.Error(err)
	}
}

func (s *store) object(name string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[name]
}

// start starts a server. It returns the name of another host's device, the server's URL, and a transport on the device.
func start(t *testing.T, kind rdmatest.Kind, dcKey uint64) (s *store, device, url string, transport *s3rdma.Transport) {
	t.Helper()
	fabric := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
	var links [2]s3rdma.Link
	for i := range links {
		dev, err := uverbs.Open(fabric.Host(i).Device(0).Name())
		if err != nil {
			t.Fatal(err)
		}
		pd, err := dev.AllocPD()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(pd.Close(), dev.Close()); err != nil {
				t.Error(err)
			}
		})
		links[i].PD = pd
	}
	s = &store{t: t, objects: make(map[string][]byte), parts: make(map[string]map[int][]byte)}
	server, err := s3rdma.NewServer(&s3rdma.ServerConfig{Link: links[1], Authorize: s.authorize, Open: s.open, Store: s.store, Next: s, DCKey: dcKey,
		AllowPeer: func(*http.Request, netip.Addr) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(server)
	base := &http.Transport{}
	transport, err = s3rdma.NewTransport(&s3rdma.TransportConfig{Link: links[0], Base: base, Sign: creds.Sign, DCKey: dcKey})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := transport.Close()
		base.CloseIdleConnections()
		listener.Close()
		if err := errors.Join(err, server.Close()); err != nil {
			t.Error(err)
		}
	})
	return s, fabric.Host(0).Device(0).Name(), listener.URL, transport
}

func data(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// sums are the checksums of an object and of two parts: the SDK's own, and otherwise what cuObject's protocol always
// sends.
var sums = map[bool]map[string][]string{
	false: {"aws": {"Crc32", "Crc64nvme", "Crc64nvme"}},
	true:  {"aws": {"Crc32", "Crc64nvme", "Crc64nvme"}, "minio": {"Crc64nvme", "Crc64nvme", "Crc64nvme"}},
}

// TestSDKs puts and gets objects, ranges and parts with each SDK as it is by default, with both protocols.
func TestSDKs(t *testing.T) {
	for _, dcKey := range []uint64{0, s3rdma.DefaultDCKey} {
		for name, open := range sdks {
			t.Run(fmt.Sprintf("%s %#x", name, dcKey), func(t *testing.T) {
				kind := rdmatest.RXE
				if dcKey != 0 {
					kind = rdmatest.MLX5
				}
				s, _, url, transport := start(t, kind, dcKey)
				c, err := open(url, creds, transport)
				if err != nil {
					t.Fatal(err)
				}
				want := data(1<<20 + 1)
				if err := c.put(t.Context(), "bucket", "a key/ü", want); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(s.object("bucket/a key/ü"), want) {
					t.Error("other data were stored")
				}
				parts := [][]byte{want[:600000], want[600000:]}
				if err := c.multipart(t.Context(), "bucket", "parts", parts); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(s.object("bucket/parts"), want) {
					t.Error("other parts were stored")
				}
				for _, part := range [][2]int{{0, len(want)}, {5000, 5001}, {100, 600100}} {
					b := make([]byte, part[1]-part[0])
					if n, err := c.get(t.Context(), "bucket", "a key/ü", int64(part[0]), b); err != nil || !bytes.Equal(b[:n], want[part[0]:part[1]]) {
						t.Errorf("%v: %d bytes, %v", part, n, err)
					}
				}
				if _, err := c.get(t.Context(), "bucket", "other", 0, make([]byte, 10)); err == nil {
					t.Error("got an object that is not there")
				}
				if st := transport.Stats(); st.Puts != 3 || st.Gets != 3 || st.Plain != 0 || st.Failed != 1 || len(s.plain) > 0 {
					t.Errorf("%+v, %v", st, s.plain)
				}
				if want := sums[dcKey != 0][name]; !slices.Equal(s.sums, want) {
					t.Errorf("checked %v, want %v", s.sums, want)
				}
			})
		}
	}
}

// TestReportedSizes has a server report sizes that no object has.
func TestReportedSizes(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", creds.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", creds.SecretKey)
	fabric := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.RXE})
	for _, size := range []string{"", "9000000000000000000"} {
		l := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodHead {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Last-Modified", time.Unix(1e9, 0).UTC().Format(http.TimeFormat))
			w.Header().Set("ETag", `"x"`)
			if w.Header().Set("Content-Length", size); size == "" {
				w.Header().Set("Transfer-Encoding", "chunked")
				w.Header().Del("Content-Length")
			}
		}))
		for name := range sdks {
			file := filepath.Join(t.TempDir(), "file")
			if err := run(fabric.Host(0).Device(0).Name(), l.URL, name, 0, "get", "bucket", "key", file); err == nil {
				t.Errorf("%s, size %q: no error", name, size)
			}
			if _, err := os.Stat(file); err == nil {
				t.Errorf("%s, size %q: a file was written", name, size)
			}
		}
		l.Close()
	}
}

// TestOddStatus checks that the text of an answer does not control the terminal.
func TestOddStatus(t *testing.T) {
	fabric := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.RXE})
	l := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = conn.Write([]byte("HTTP/1.1 418 \x1b[2Jgone\r\nContent-Length: 0\r\n\r\n"))
		conn.Close()
	}))
	defer l.Close()
	for name := range sdks {
		if err := run(fabric.Host(0).Device(0).Name(), l.URL, name, 0, "get", "bucket", "key", filepath.Join(t.TempDir(), "x")); err == nil || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: %q", name, err)
		}
	}
}

// TestProgram copies a file of two parts to a server and back.
func TestProgram(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", creds.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", creds.SecretKey)
	for name := range sdks {
		s, device, url, _ := start(t, rdmatest.RXE, 0)
		dir, want := t.TempDir(), data(partSize+1)
		from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
		if err := os.WriteFile(from, want, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(run(device, url, name, 0, "put", "bucket", "key", from), run(device, url, name, 0, "get", "bucket", "key", to)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(to)
		if err != nil || !bytes.Equal(got, want) || !bytes.Equal(s.object("bucket/key"), want) || len(s.plain) > 0 {
			t.Errorf("%d bytes, %v, %v", len(got), s.plain, err)
		}
	}
}
