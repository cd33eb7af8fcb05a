#!/usr/bin/env bash
# minio-go's GetObject with Checksum set compares nothing unless the server says FULL_OBJECT.
#
# github.com/minio/minio-go/v7 v7.4.1. With GetObjectOptions.Checksum the client asks for the object's
# checksum, and compares the data that it reads with it, but only if the answer also has x-amz-checksum-type:
# FULL_OBJECT. A server older than this header sends only the checksum. Then data that doesn't match it is
# returned without an error.
#
# Seen, for an answer whose CRC32C is not that of its data:
#   x-amz-checksum-type FULL_OBJECT: checksum mismatch, expected AAAAAA==, got yZRlqg==
#   x-amz-checksum-type none: <nil>
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
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

func main() {
	kind := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		w.Header().Set("X-Amz-Checksum-Crc32c", "AAAAAA==")
		if kind != "none" {
			w.Header().Set("X-Amz-Checksum-Type", kind)
		}
		io.WriteString(w, "hello world")
	}))
	defer s.Close()
	c, err := minio.New(strings.TrimPrefix(s.URL, "http://"), &minio.Options{Creds: credentials.NewStaticV4("key", "secret", ""), Region: "us-east-1"})
	if err != nil {
		log.Fatal(err)
	}
	for _, kind = range []string{"FULL_OBJECT", "none"} {
		o, err := c.GetObject(context.Background(), "bucket", "object", minio.GetObjectOptions{Checksum: true})
		if err == nil {
			_, err = io.ReadAll(o)
		}
		fmt.Printf("x-amz-checksum-type %s: %v\n", kind, err)
	}
}
EOF
go get github.com/minio/minio-go/v7@v7.4.1 2>/dev/null
CGO_ENABLED=0 go run -mod=mod . 2>&1 | sed "/^go: downloading/d" | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
