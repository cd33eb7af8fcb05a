package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/goverbs/goverbs/s3rdma"
)

// piece is how many bytes one GET fetches.
const piece = 4 << 20

// client copies files.
type client struct {
	http  http.Client
	rdma  *s3rdma.Transport // nil without a device
	creds *s3rdma.Credentials
}

// copyFile copies a file to a URL, or an object to a file. It returns how many bytes went which way.
func copyFile(ctx context.Context, device string, dcKey uint64, creds *s3rdma.Credentials, from, to string) (string, error) {
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	c := &client{http: http.Client{Transport: base}, creds: creds}
	if device != "" {
		link, closeLink, err := openLink(device)
		if err != nil {
			return "", err
		}
		defer closeLink()
		if c.rdma, err = s3rdma.NewTransport(&s3rdma.TransportConfig{Link: link, Base: base, Sign: creds.Sign, DCKey: dcKey}); err != nil {
			return "", err
		}
		defer c.rdma.Close()
		c.http.Transport = c.rdma
	}
	var n int
	var err error
	switch up, down := strings.HasPrefix(to, "http"), strings.HasPrefix(from, "http"); {
	case up && !down:
		n, err = c.put(ctx, from, to)
	case down && !up:
		n, err = c.get(ctx, from, to)
	default:
		err = errors.New("one of both must be a URL")
	}
	if err != nil {
		return "", err
	}
	if c.rdma == nil {
		return fmt.Sprintf("%d bytes by plain HTTP", n), nil
	}
	s := c.rdma.Stats()
	how := fmt.Sprintf("%d bytes by RDMA", s.Bytes)
	if s.Plain > 0 {
		how += fmt.Sprintf(", %d by plain HTTP: %v", n-int(s.Bytes), s.Reason)
	}
	return how, nil
}

// do sends a signed request with the buffer b, and returns a response of success.
func (c *client) do(ctx context.Context, method, url string, b []byte, ranged string) (*http.Response, error) {
	var body io.Reader
	if method == http.MethodPut {
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(s3rdma.WithBuffer(ctx, b), method, url, body)
	if err != nil {
		return nil, err
	}
	if ranged != "" {
		req.Header.Set("Range", ranged)
	}
	if err := c.creds.Sign(req); err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		resp.Body.Close()
		return nil, fmt.Errorf("%s %s: %q: %q", method, url, resp.Status, text)
	}
	return resp, nil
}

func (c *client) put(ctx context.Context, file, url string) (int, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	resp, err := c.do(ctx, http.MethodPut, url, b, "")
	if err != nil {
		return 0, err
	}
	return len(b), resp.Body.Close()
}

func (c *client) get(ctx context.Context, url, file string) (n int, err error) {
	head, err := c.do(ctx, http.MethodHead, url, nil, "")
	if err != nil {
		return 0, err
	}
	head.Body.Close()
	if head.ContentLength < 0 {
		return 0, fmt.Errorf("HEAD %s: the answer has no length", url)
	}
	size, etag := int(head.ContentLength), head.Header.Get("ETag")
	incomplete := file
	if info, err := os.Stat(file); err != nil || info.Mode().IsRegular() { // no terminal or pipe
		incomplete += ".part"
	}
	f, err := os.Create(incomplete)
	if err != nil {
		return 0, err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		switch {
		case incomplete == file:
		case err != nil:
			err = errors.Join(err, os.Remove(incomplete))
		default:
			err = os.Rename(incomplete, file)
		}
	}()
	buf := make([]byte, piece)
	for n < size {
		part := buf[:min(piece, size-n)]
		resp, err := c.do(ctx, http.MethodGet, url, part, fmt.Sprintf("bytes=%d-%d", n, n+len(part)-1))
		if err != nil {
			return n, err
		}
		if resp.Header.Get("ETag") != etag {
			err = errors.New("the object has been replaced meanwhile")
		} else if resp.StatusCode != http.StatusPartialContent && len(part) < size {
			err = errors.New("the server ignores ranges")
		} else if _, err = io.ReadFull(resp.Body, part); err == nil { // which copies nothing if the data came by RDMA
			_, err = f.Write(part)
		}
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return n, err
		}
		n += len(part)
		progress(n, size)
	}
	return n, nil
}

// progress shows how much has arrived, if somebody looks.
func progress(n, size int) {
	if info, err := os.Stderr.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return
	}
	const width = 40
	done := width * n / size
	fmt.Fprintf(os.Stderr, "\r[%s%s] %3d %%", strings.Repeat("#", done), strings.Repeat(" ", width-done), 100*n/size)
	if n == size {
		fmt.Fprintln(os.Stderr)
	}
}
