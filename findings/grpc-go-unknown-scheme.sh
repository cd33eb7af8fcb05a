#!/usr/bin/env bash
# grpc-go takes a target whose scheme it doesn't know for the name of a host.
#
# google.golang.org/grpc v1.79.3. A program that has a dialer for RDMA may call its targets rdma:///HOST:PORT.
# NewClient accepts that without an error. It puts dns:/// before the whole target and the port 443 after it,
# so the first call fails because of too many colons, and the dialer is never asked. The error doesn't say
# that the scheme is unknown. The target HOST:PORT reaches the dialer.
#
# Seen:
#   10.0.0.1:7471
#     NewClient: <nil>
#     dialer: 10.0.0.1:7471
#   rdma:///10.0.0.1:7471
#     NewClient: <nil>
#     call: invalid target address rdma:///10.0.0.1:7471, error info: address rdma:///10.0.0.1:7471:443: too many colons in address
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
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

func main() {
	for _, target := range []string{"10.0.0.1:7471", "rdma:///10.0.0.1:7471"} {
		fmt.Println(target)
		ctx, cancel := context.WithCancel(context.Background())
		dialer := func(_ context.Context, address string) (net.Conn, error) {
			fmt.Println("  dialer:", address)
			cancel()
			return nil, errors.New("not a real dialer")
		}
		c, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dialer))
		fmt.Println("  NewClient:", err)
		if err != nil {
			continue
		}
		if err := c.Invoke(ctx, "/service/method", nil, nil); ctx.Err() == nil {
			fmt.Println("  call:", status.Convert(err).Message())
		}
		c.Close()
		cancel()
	}
}
EOF
go get google.golang.org/grpc@v1.79.3 2>/dev/null
CGO_ENABLED=0 go run -mod=mod . 2>&1 | sed "/^go: downloading/d" | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
