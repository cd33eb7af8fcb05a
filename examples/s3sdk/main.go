// S3sdk puts a file and gets it back by RDMA with one of Go's SDKs for S3: aws-sdk-go-v2 or minio-go. AWS_ACCESS_KEY_ID
// and AWS_SECRET_ACCESS_KEY have the credentials.
//
//	s3sdk -dev mlx5_0 -url http://10.0.0.1:9000 -sdk minio put bucket/key FILE
//	s3sdk -dev mlx5_0 -url http://10.0.0.1:9000 -sdk aws get bucket/key FILE
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"slices"
	"strings"

	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/s3rdma"
	"github.com/goverbs/goverbs/uverbs"
)

// sdk is what both SDKs can do. All data are in the caller's memory, where the device reads or writes them.
type sdk interface {
	put(ctx context.Context, bucket, key string, b []byte) error
	// multipart puts an object of several parts.
	multipart(ctx context.Context, bucket, key string, parts [][]byte) error
	// get reads an object from an offset on until b is full. It returns the number of bytes at the beginning of b.
	get(ctx context.Context, bucket, key string, offset int64, b []byte) (int, error)
	// size returns -1 if the server does not report the size.
	size(ctx context.Context, bucket, key string) (int64, error)
}

var sdks = map[string]func(url string, creds *s3rdma.Credentials, t http.RoundTripper) (sdk, error){"aws": newAWS, "minio": newMinio}

// partSize is the size of the parts of large objects.
const partSize = 8 << 20

func main() {
	log.SetFlags(0)
	dev := flag.String("dev", "", "use this RDMA `device`")
	url := flag.String("url", "http://127.0.0.1:9000", "`URL` of the server")
	name := flag.String("sdk", "aws", "aws or minio")
	dcKey := flag.Uint64("dc-key", 0, "speak cuObject's protocol, which needs mlx5, with this DC `key`, usually 0xffeeddcc")
	flag.Parse()
	bucket, key, ok := strings.Cut(flag.Arg(1), "/")
	if flag.NArg() != 3 || !ok || sdks[*name] == nil {
		log.Fatal("want put BUCKET/KEY FILE or get BUCKET/KEY FILE")
	}
	if err := run(*dev, *url, *name, *dcKey, flag.Arg(0), bucket, key, flag.Arg(2)); err != nil {
		log.Fatal(err)
	}
}

func run(device, url, name string, dcKey uint64, verb, bucket, key, file string) error {
	dev, err := uverbs.Open(device)
	if err != nil {
		return err
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	defer pd.Close()
	creds := &s3rdma.Credentials{AccessKey: os.Getenv("AWS_ACCESS_KEY_ID"), SecretKey: os.Getenv("AWS_SECRET_ACCESS_KEY")}
	t, err := s3rdma.NewTransport(&s3rdma.TransportConfig{Link: s3rdma.Link{PD: pd}, Sign: creds.Sign, DCKey: dcKey})
	if err != nil {
		return err
	}
	defer t.Close()
	c, err := sdks[name](url, creds, t)
	if err != nil {
		return err
	}
	ctx := context.Background()
	switch verb {
	case "put":
		err = upload(ctx, c, bucket, key, file)
	case "get":
		err = download(ctx, c, bucket, key, file)
	default:
		err = errors.New("want put or get")
	}
	if err != nil {
		return fmt.Errorf("%s: %q", verb, err) // the error may contain text from the server
	}
	s := t.Stats()
	fmt.Printf("%d bytes in %d requests by RDMA, %d by plain HTTP\n", s.Bytes, s.Gets+s.Puts, s.Plain)
	if s.Reason != nil {
		fmt.Printf("reason: %q\n", s.Reason)
	}
	return nil
}

func upload(ctx context.Context, c sdk, bucket, key, file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if len(b) <= partSize {
		return c.put(ctx, bucket, key, b)
	}
	var parts [][]byte
	for ; len(b) > 0; b = b[min(partSize, len(b)):] {
		parts = append(parts, b[:min(partSize, len(b))])
	}
	return c.multipart(ctx, bucket, key, parts)
}

func download(ctx context.Context, c sdk, bucket, key, file string) error {
	size, err := c.size(ctx, bucket, key)
	if err != nil {
		return err
	}
	if size < 0 {
		return errors.New("the server does not report the object's size")
	}
	var b []byte // grows with what arrives, because the server may report any size
	for int64(len(b)) < size {
		at, part := len(b), int(min(size-int64(len(b)), partSize))
		b = slices.Grow(b, part)
		n, err := c.get(ctx, bucket, key, int64(at), b[at:at+part])
		if err != nil {
			return err
		}
		b = b[:at+n]
	}
	return os.WriteFile(file, b, 0o666)
}
