#!/bin/sh
# Builds versitygw 1.8.0 with the package of this directory in place of its own rdma/rcserver, without cgo, and moves objects between it and
# the client of examples/s3. Both run in `rdmalink sandbox`. It needs rdmalink in PATH.
#
#	versitygw.sh [KIND...]
#
# versitygw's routes for the protocol are built only with cgo, because its own package needs that: their build constraints are changed.
set -eu
version=v1.8.0
kinds=${*:-rxe mlx5 erdma-roce}
here=$(cd "$(dirname "$0")" && pwd)
work=${VERSITYGW:-${XDG_CACHE_HOME:-$HOME/.cache}/goverbs/versitygw-go-$version}
export CGO_ENABLED=0 GOFLAGS=-mod=mod
mkdir -p "$work"
module=$(go mod download -json github.com/versity/versitygw@$version | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
rm -rf "$work/src" && cp -r "$module" "$work/src" && chmod -R u+w "$work/src"
cd "$work/src"
sed -i 's/^\/\/go:build linux && amd64 && cgo$/\/\/go:build linux/; s/^\/\/go:build !(linux && amd64 && cgo)$/\/\/go:build !linux/' rdma/rcroutes/*.go
rm rdma/rcserver/*.go
cp "$here/rcserver.go" rdma/rcserver/
go mod edit -require github.com/goverbs/goverbs@v0.0.0 -replace "github.com/goverbs/goverbs=$here/../.."
go test ./rdma/rcroutes
go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$work/vgwrdma" ./cmd/vgwrdma
echo "built: $(stat -c %s "$work/vgwrdma") bytes"
export PATH="$work:$PATH"
export AWS_ACCESS_KEY_ID=me AWS_SECRET_ACCESS_KEY=secret ROOT_ACCESS_KEY=me ROOT_SECRET_KEY=secret
go -C "$here/../s3" build -o "$work/s3" .
cd "$work" && rm -rf run && mkdir run && cd run
for kind in $kinds; do
	device=${kind%-*}0
	test "$kind" != mlx5 || device=mlx5_0
	mkdir -p "$kind/objects/bucket" && cd "$kind"
	for size in 1 65536 1048577 67108864; do
		head -c $size /dev/urandom > in
		echo "$kind, $size bytes:"
		device=$device rdmalink sandbox --device "$kind" -- sh -c '
			vgwrdma --port 127.0.0.1:7070 --health /health --rdma-rc-enable posix "$PWD/objects" >log 2>&1 &
			server=$!
			until curl -sf http://127.0.0.1:7070/health >/dev/null; do sleep 0.2; done
			s3 -dev $device cp in http://127.0.0.1:7070/bucket/key && cmp in objects/bucket/key &&
			s3 -dev $device cp http://127.0.0.1:7070/bucket/key out && cmp in out
			status=$?
			kill $server
			wait $server
			exit $status' || { tail -20 log; exit 1; }
		rm -f in out
	done
	cd ..
done
echo "all equal"
