// S3 serves the files of a directory as objects of S3, by RDMA and by plain HTTP, and copies files to and from such a
// server. Directories are buckets. AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY have the credentials of both sides.
// Without -dev, there is no RDMA.
//
//	s3 -dev mlx5_0 -listen 10.0.0.1:9000 -dir /srv/objects
//	s3 -dev mlx5_0 cp model.bin http://10.0.0.1:9000/models/model.bin
//	s3 -dev mlx5_0 cp http://10.0.0.1:9000/models/model.bin copy.bin
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/s3rdma"
	"github.com/goverbs/goverbs/uverbs"
)

const usage = "s3 [options] serves; s3 [options] cp FROM TO copies a file to a URL, or back."

func main() {
	log.SetFlags(0)
	dev := flag.String("dev", "", "use this RDMA `device`")
	listen := flag.String("listen", "127.0.0.1:9000", "serve at this TCP `address`")
	dir := flag.String("dir", ".", "serve the files of this `directory`")
	dcKey := flag.Uint64("dc-key", 0, "speak cuObject's protocol, which needs mlx5, with this DC `key`, usually 0xffeeddcc")
	anyPeer := flag.Bool("any-peer", false, "serve clients whose RDMA address is not that of their HTTP connection")
	flag.Usage = func() { fmt.Fprintln(flag.CommandLine.Output(), usage); flag.PrintDefaults() }
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	creds := &s3rdma.Credentials{AccessKey: os.Getenv("AWS_ACCESS_KEY_ID"), SecretKey: os.Getenv("AWS_SECRET_ACCESS_KEY"), Region: os.Getenv("AWS_REGION")}
	err := errors.New("give no arguments, or cp FROM TO: see -help")
	switch {
	case creds.AccessKey == "" || creds.SecretKey == "":
		err = errors.New("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	case flag.NArg() == 0:
		var l net.Listener
		if l, err = net.Listen("tcp", *listen); err == nil {
			fmt.Printf("http://%v\n", l.Addr())
			err = serve(ctx, l, *dev, *dir, creds, *dcKey, *anyPeer)
		}
	case flag.NArg() == 3 && flag.Arg(0) == "cp":
		var how string
		if how, err = copyFile(ctx, *dev, *dcKey, creds, flag.Arg(1), flag.Arg(2)); err == nil {
			fmt.Println(how)
		}
	}
	if err != nil {
		log.Fatal(err)
	}
}

// openLink opens a device, and returns a function that closes it.
func openLink(name string) (s3rdma.Link, func(), error) {
	dev, err := uverbs.Open(name)
	if err != nil {
		return s3rdma.Link{}, nil, err
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return s3rdma.Link{}, nil, errors.Join(err, dev.Close())
	}
	return s3rdma.Link{PD: pd}, func() { pd.Close(); dev.Close() }, nil
}

// shutdownTime is how long a server that is ended waits for the requests under way.
const shutdownTime = 10 * time.Second

func serve(ctx context.Context, l net.Listener, device, dir string, creds *s3rdma.Credentials, dcKey uint64, anyPeer bool) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	files := &store{root: root, creds: creds}
	var handler http.Handler = files
	if device != "" {
		link, closeLink, err := openLink(device)
		if err != nil {
			return err
		}
		defer closeLink()
		cfg := &s3rdma.ServerConfig{Link: link, Authorize: files.authorize, Open: files.open, Store: files.store, Next: files, DCKey: dcKey, MaxTransfer: 1 << 30,
			MaxStaging: 4 << 30, MaxPrincipalStaging: 4 << 30, Done: func(t *s3rdma.Transfer, n int64, err error) {
				if logged := fmt.Sprintf("%s %q by RDMA", t.Method, t.Bucket+"/"+t.Key); err != nil {
					log.Printf("%s: %q", logged, err) // the error may contain text from the client
				} else {
					log.Printf("%s: %d bytes", logged, n)
				}
			}}
		if anyPeer {
			cfg.AllowPeer = func(*http.Request, netip.Addr) error { return nil }
		}
		s, err := s3rdma.NewServer(cfg)
		if err != nil {
			return err
		}
		defer s.Close()
		handler = s
	}
	server := http.Server{Handler: handler, ReadHeaderTimeout: shutdownTime}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	return server.Shutdown(limited)
}
