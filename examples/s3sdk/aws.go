package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/goverbs/goverbs/s3rdma"
)

// awsSDK is aws-sdk-go-v2.
type awsSDK struct{ *s3.Client }

func newAWS(url string, creds *s3rdma.Credentials, t http.RoundTripper) (sdk, error) {
	// The last two are what config.LoadDefaultConfig chooses: the SDK sends a CRC32 with each PUT, and checks each
	// answer.
	return awsSDK{s3.New(s3.Options{BaseEndpoint: &url, Region: "us-east-1", UsePathStyle: true, HTTPClient: &http.Client{Transport: t},
		Credentials:                credentials.NewStaticCredentialsProvider(creds.AccessKey, creds.SecretKey, ""),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported, ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported})}, nil
}

func (c awsSDK) put(ctx context.Context, bucket, key string, b []byte) error {
	_, err := c.PutObject(s3rdma.WithBuffer(ctx, b), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(b)})
	return err
}

func (c awsSDK) multipart(ctx context.Context, bucket, key string, parts [][]byte) error {
	// The sum of all parts, which the server computes from those of the parts.
	const sum = types.ChecksumAlgorithmCrc64nvme
	up, err := c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &bucket, Key: &key, ChecksumAlgorithm: sum})
	if err != nil {
		return err
	}
	var done []types.CompletedPart
	for i, b := range parts {
		number := aws.Int32(int32(i + 1))
		part, err := c.UploadPart(s3rdma.WithBuffer(ctx, b), &s3.UploadPartInput{Bucket: &bucket, Key: &key, UploadId: up.UploadId, PartNumber: number,
			Body: bytes.NewReader(b), ChecksumAlgorithm: sum})
		if err != nil {
			return err
		}
		done = append(done, types.CompletedPart{ETag: part.ETag, PartNumber: number, ChecksumCRC64NVME: part.ChecksumCRC64NVME})
	}
	_, err = c.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: &bucket, Key: &key, UploadId: up.UploadId,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: done}})
	return err
}

func (c awsSDK) get(ctx context.Context, bucket, key string, offset int64, b []byte) (int, error) {
	part := fmt.Sprintf("bytes=%d-%d", offset, offset+int64(len(b))-1)
	out, err := c.GetObject(s3rdma.WithBuffer(ctx, b), &s3.GetObjectInput{Bucket: &bucket, Key: &key, Range: &part})
	if err != nil {
		return 0, err
	}
	defer out.Body.Close()
	return fill(b, out.Body)
}

func (c awsSDK) size(ctx context.Context, bucket, key string) (int64, error) {
	out, err := c.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: &key})
	if err != nil {
		return 0, err
	}
	if out.ContentLength == nil {
		return -1, nil
	}
	return *out.ContentLength, nil
}

// fill reads a body. If it came by RDMA, it is in b already, and this copies each byte to where it is.
func fill(b []byte, body io.Reader) (int, error) {
	n, err := io.ReadFull(body, b)
	if err == io.ErrUnexpectedEOF {
		err = nil
	}
	return n, err
}
