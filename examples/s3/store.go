package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"os"
	"path"
	"strings"

	"github.com/goverbs/goverbs/s3rdma"
)

// store is objects in files.
type store struct {
	root  *os.Root
	creds *s3rdma.Credentials
}

// uploads is the directory of files that are not complete. Objects can't begin with a dot.
const uploads = ".uploads"

func (s *store) authorize(r *http.Request, t *s3rdma.Transfer) (string, error) {
	if err := s.creds.Verify(r); err != nil {
		return "", err
	}
	if len(t.Query) > 0 {
		return "", fmt.Errorf("a query: %w", errors.ErrUnsupported)
	}
	return s.creds.AccessKey, checkHeader(t.Header)
}

// checkHeader refuses requests for more than the data. A client then repeats a GET by plain HTTP.
func checkHeader(h http.Header) error {
	for name := range h {
		for _, prefix := range []string{"If-", "X-Amz-Copy-Source", "X-Amz-Meta-", "X-Amz-Server-Side-Encryption"} {
			if strings.HasPrefix(name, prefix) {
				return fmt.Errorf("the header %q: %w", name, errors.ErrUnsupported)
			}
		}
	}
	return nil
}

func (s *store) open(_ context.Context, t *s3rdma.Transfer) (io.ReadCloser, *s3rdma.Info, error) {
	f, info, err := s.openFile(t.Bucket + "/" + t.Key)
	if err != nil {
		return nil, nil, err
	}
	if _, err := f.Seek(t.Offset, io.SeekStart); err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, infoOf(info), nil
}

// check refuses names of files that are no objects.
func check(name string) error {
	if !fs.ValidPath(name) || strings.HasPrefix(name, ".") || !strings.Contains(name, "/") {
		return fmt.Errorf("%q is no bucket with a key: %w", name, fs.ErrPermission)
	}
	return nil
}

func (s *store) openFile(name string) (*os.File, fs.FileInfo, error) {
	if err := check(name); err != nil {
		return nil, nil, err
	}
	f, err := s.root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

func infoOf(f fs.FileInfo) *s3rdma.Info {
	return &s3rdma.Info{Size: f.Size(), Modified: f.ModTime(), ContentType: "application/octet-stream", ETag: fmt.Sprintf(`"%x-%x"`, f.ModTime().UnixNano(), f.Size())}
}

func (s *store) store(_ context.Context, t *s3rdma.Transfer, data []byte) (*s3rdma.Info, error) {
	return s.write(t.Bucket+"/"+t.Key, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// write replaces a file, or changes nothing.
func (s *store) write(name string, fill func(*os.File) error) (*s3rdma.Info, error) {
	if err := check(name); err != nil {
		return nil, err
	}
	if err := errors.Join(s.root.MkdirAll(uploads, 0o777), s.root.MkdirAll(path.Dir(name), 0o777)); err != nil {
		return nil, err
	}
	temporary := uploads + "/" + rand.Text()
	f, err := s.root.Create(temporary)
	if err != nil {
		return nil, err
	}
	err = fill(f)
	info, statErr := f.Stat()
	if err = errors.Join(err, statErr, f.Close()); err == nil {
		err = s.root.Rename(temporary, name)
	}
	if err != nil {
		return nil, errors.Join(err, s.root.Remove(temporary))
	}
	return infoOf(info), nil
}

// ServeHTTP is GET, HEAD and PUT by plain HTTP.
func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := s.creds.Verify(r)
	name := strings.TrimPrefix(r.URL.Path, "/")
	switch {
	case err != nil:
	case r.Method == http.MethodPut:
		err = s.put(w, r, name)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		var f *os.File
		var info fs.FileInfo
		if f, info, err = s.openFile(name); err == nil {
			defer f.Close()
			w.Header().Set("ETag", infoOf(info).ETag)
			w.Header().Set("Content-Type", "application/octet-stream")
			http.ServeContent(w, r, "", info.ModTime(), f)
		}
	default:
		http.Error(w, "want GET, HEAD or PUT", http.StatusMethodNotAllowed)
		return
	}
	if err == nil {
		return
	}
	log.Printf("%s %q: %q", r.Method, name, err)
	status := http.StatusInternalServerError
	for cause, s := range map[error]int{fs.ErrPermission: http.StatusForbidden, fs.ErrNotExist: http.StatusNotFound, errors.ErrUnsupported: http.StatusNotImplemented} {
		if errors.Is(err, cause) {
			status = s
		}
	}
	http.Error(w, http.StatusText(status), status)
}

func (s *store) put(w http.ResponseWriter, r *http.Request, name string) error {
	want := r.Header.Get("X-Amz-Content-Sha256")
	if r.URL.RawQuery != "" || strings.HasPrefix(want, "STREAMING-") {
		return fmt.Errorf("a query, or a body in chunks: %w", errors.ErrUnsupported)
	}
	if err := checkHeader(r.Header); err != nil {
		return err
	}
	info, err := s.write(name, func(f *os.File) error {
		sum := sha256.New()
		if _, err := io.Copy(io.MultiWriter(f, sum), r.Body); err != nil {
			return err
		}
		if got := hex.EncodeToString(sum.Sum(nil)); want != "UNSIGNED-PAYLOAD" && want != got {
			return fmt.Errorf("the body's hash is not the signed one: %w", fs.ErrPermission)
		}
		return nil
	})
	if err == nil {
		w.Header().Set("ETag", info.ETag)
	}
	return err
}
