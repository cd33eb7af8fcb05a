// Package s3rdma moves objects of S3 by RDMA, with the protocol hipobj-rc-v2: HTTP requests pair two queue pairs of
// type RC, and one side writes the data into the other's memory. AMD's hipObject, versitygw and Ceph speak it. It needs
// RoCE. With a DCKey, it is cuObject's protocol of MinIO AIStor, NooBaa and others, which needs mlx5.
//
// A [Transport] is the client's side, an [net/http.RoundTripper] for any S3 client. A [Server] is the other side,
// an [net/http.Handler].
//
// The shortest whole program, which gets an object into memory:
//
//	package main
//
//	import (
//		"context"
//		"fmt"
//		"log"
//		"net/http"
//		"os"
//
//		_ "github.com/goverbs/goverbs/provider/all"
//		"github.com/goverbs/goverbs/s3rdma"
//		"github.com/goverbs/goverbs/uverbs"
//	)
//
//	func main() {
//		dev, err := uverbs.Open("mlx5_0")
//		if err != nil {
//			log.Fatal(err)
//		}
//		pd, err := dev.AllocPD()
//		if err != nil {
//			log.Fatal(err)
//		}
//		creds := &s3rdma.Credentials{AccessKey: os.Getenv("AWS_ACCESS_KEY_ID"), SecretKey: os.Getenv("AWS_SECRET_ACCESS_KEY")}
//		t, err := s3rdma.NewTransport(&s3rdma.TransportConfig{Link: s3rdma.Link{PD: pd}, Sign: creds.Sign})
//		if err != nil {
//			log.Fatal(err)
//		}
//		buf := make([]byte, 1<<20)
//		ctx := s3rdma.WithBuffer(context.Background(), buf)
//		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://10.0.0.1:9000/bucket/key", nil)
//		if err != nil {
//			log.Fatal(err)
//		}
//		if err := creds.Sign(req); err != nil {
//			log.Fatal(err)
//		}
//		resp, err := (&http.Client{Transport: t}).Do(req)
//		if err != nil {
//			log.Fatal(err)
//		}
//		fmt.Println(resp.Status, resp.ContentLength, t.Stats().Reason)
//	}
//
// # Memory
//
// The client registers the caller's buffer for one transfer, with no more access than that needs: a peer may write to
// the buffer of a GET and may do nothing with that of a PUT. When RoundTrip returns, the queue pair is destroyed and
// the region deregistered, also after an error. The server keeps memory in a pool, and registers it anew for each
// transfer. It deregisters the data of a PUT before it stores them.
//
// docs/s3.md has the rest: what speaks to what, limits, statuses and security.
//
// Experimental: may change in any release; see docs/stability.md.
package s3rdma
