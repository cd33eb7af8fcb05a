// Command server is a gRPC server over RDMA, with TLS. It echoes.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"io"
	"log"
	"math/big"
	"net"
	"os"
	"os/signal"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/interop/grpc_testing"

	"github.com/goverbs/goverbs/rsocket"

	_ "github.com/goverbs/goverbs/provider/all"
)

func main() {
	listen := flag.String("listen", ":7471", "address to listen on")
	certFile := flag.String("cert", "cert.pem", "file to write the certificate to, for clients")
	host := flag.String("host", "127.0.0.1", "IP address that the certificate is for")
	flag.Parse()
	cert, err := selfSigned(net.ParseIP(*host), *certFile)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var lc rsocket.ListenConfig
	l, err := lc.Listen(ctx, *listen)
	if err != nil {
		log.Fatal(err)
	}
	s := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&cert)))
	grpc_testing.RegisterTestServiceServer(s, echo{})
	context.AfterFunc(ctx, s.Stop)
	if err := s.Serve(l); err != nil {
		log.Fatal(err)
	}
}

// echo is a service of gRPC's own tests, so that this example needs no protoc.
type echo struct {
	grpc_testing.UnimplementedTestServiceServer
}

// UnaryCall answers a message.
func (echo) UnaryCall(_ context.Context, r *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	return &grpc_testing.SimpleResponse{Payload: r.GetPayload()}, nil
}

// FullDuplexCall answers each message of a stream.
func (echo) FullDuplexCall(s grpc_testing.TestService_FullDuplexCallServer) error {
	for {
		r, err := s.Recv()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = s.Send(&grpc_testing.StreamingOutputCallResponse{Payload: r.GetPayload()})
		}
		if err != nil {
			return err
		}
	}
}

// selfSigned makes a certificate and writes it to a file.
func selfSigned(ip net.IP, file string) (cert tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return cert, err
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IPAddresses: []net.IP{ip}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return cert, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, os.WriteFile(file, text, 0o644)
}
