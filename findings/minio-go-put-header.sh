#!/usr/bin/env bash
# minio-go turns the token of an RDMA PUT into metadata of the object.
#
# github.com/minio/minio-go/v7 v7.4.1. S3 over RDMA names the client's memory in the header x-amz-rdma-token,
# which GetObjectOptions.Set adds to a GET. PutObject takes headers in UserMetadata, and sends x-amz-acl
# unchanged. The token gets the prefix X-Amz-Meta- without an error, so the server sees an ordinary PUT, with
# the token as metadata of the object.
#
# Seen, headers with "token" or "acl" as the server got them:
#   PUT X-Amz-Acl: private
#   PUT X-Amz-Meta-X-Amz-Rdma-Token: token
#   PUT error: <nil>
#   GET X-Amz-Rdma-Token: token
set -euo pipefail
script=$(realpath "$0")
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cd "$dir"
cat > go.mod <<EOF
module try

go 1.25
EOF
cat > main.go <<'EOF'
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

func main() {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			if strings.HasSuffix(name, "Token") || strings.HasSuffix(name, "Acl") {
				fmt.Printf("%s %s: %s\n", r.Method, name, r.Header.Get(name))
			}
		}
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
	}))
	defer s.Close()
	c, err := minio.New(strings.TrimPrefix(s.URL, "http://"), &minio.Options{Creds: credentials.NewStaticV4("key", "secret", ""), Region: "us-east-1"})
	if err != nil {
		log.Fatal(err)
	}
	headers := map[string]string{"x-amz-acl": "private", "x-amz-rdma-token": "token"}
	_, err = c.PutObject(context.Background(), "bucket", "object", strings.NewReader(""), 0, minio.PutObjectOptions{UserMetadata: headers})
	fmt.Println("PUT error:", err)
	var get minio.GetObjectOptions
	get.Set("x-amz-rdma-token", "token")
	o, err := c.GetObject(context.Background(), "bucket", "object", get)
	if err != nil {
		log.Fatal(err)
	}
	io.Copy(io.Discard, o)
}
EOF
go get github.com/minio/minio-go/v7@v7.4.1 2>/dev/null
CGO_ENABLED=0 go run -mod=mod . 2>&1 | sed "/^go: downloading/d" | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
