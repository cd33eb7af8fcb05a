package main

import (
	"bytes"
	"context"
	"net/http"
	"net/url"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/goverbs/goverbs/s3rdma"
)

// minioSDK is minio-go. A Core makes one request at a time, so each can have a buffer.
type minioSDK struct{ *minio.Core }

func newMinio(endpoint string, creds *s3rdma.Credentials, t http.RoundTripper) (sdk, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	c, err := minio.NewCore(u.Host, &minio.Options{Creds: credentials.NewStaticV4(creds.AccessKey, creds.SecretKey, ""), Secure: u.Scheme == "https",
		Region: "us-east-1", Transport: t})
	return minioSDK{c}, err
}

func (c minioSDK) put(ctx context.Context, bucket, key string, b []byte) error {
	_, err := c.Client.PutObject(s3rdma.WithBuffer(ctx, b), bucket, key, bytes.NewReader(b), int64(len(b)), minio.PutObjectOptions{DisableMultipart: true})
	return err
}

func (c minioSDK) multipart(ctx context.Context, bucket, key string, parts [][]byte) error {
	id, err := c.NewMultipartUpload(ctx, bucket, key, minio.PutObjectOptions{})
	if err != nil {
		return err
	}
	var done []minio.CompletePart
	for i, b := range parts {
		part, err := c.PutObjectPart(s3rdma.WithBuffer(ctx, b), bucket, key, id, i+1, bytes.NewReader(b), int64(len(b)), minio.PutObjectPartOptions{})
		if err != nil {
			return err
		}
		done = append(done, minio.CompletePart{PartNumber: i + 1, ETag: part.ETag})
	}
	_, err = c.CompleteMultipartUpload(ctx, bucket, key, id, done, minio.PutObjectOptions{})
	return err
}

func (c minioSDK) get(ctx context.Context, bucket, key string, offset int64, b []byte) (int, error) {
	var opts minio.GetObjectOptions
	if err := opts.SetRange(offset, offset+int64(len(b))-1); err != nil {
		return 0, err
	}
	body, _, _, err := c.GetObject(s3rdma.WithBuffer(ctx, b), bucket, key, opts)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	return fill(b, body)
}

func (c minioSDK) size(ctx context.Context, bucket, key string) (int64, error) {
	info, err := c.StatObject(ctx, bucket, key, minio.StatObjectOptions{})
	return info.Size, err
}
