#!/usr/bin/env bash
# mdlayher/ndp refuses messages that have a link-layer address of IPoIB.
#
# github.com/mdlayher/ndp v1.1.0. The address of an IPoIB interface has 20 bytes, so its link-layer address option has three
# units of eight bytes, two of them padding (RFC 4391). The package takes options of one unit only. It
# fails for the whole message, also for a router advertisement whose other options a host needs.
#
# Seen, for a router advertisement with an MTU option and a source link-layer address:
#   Ethernet: 2 options, <nil>
#   InfiniBand: ndp: failed to unmarshal router advertisement: failed to parse message
#   MarshalMessage, InfiniBand: ndp: invalid link-layer address: "80:00:00:48:fe:80:00:00:00:00:00:00:e4:1d:2d:03:00:0a:0b:0c"
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
	"fmt"
	"log"
	"net"
	"slices"

	"github.com/mdlayher/ndp"
)

func main() {
	hw, err := net.ParseMAC("80:00:00:48:fe:80:00:00:00:00:00:00:e4:1d:2d:03:00:0a:0b:0c")
	if err != nil {
		log.Fatal(err)
	}
	advertisement := []byte{134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 5, 1, 0, 0, 0, 0, 0x7, 0xfc} // MTU 2044
	for _, link := range []struct {
		name   string
		source []byte
	}{
		{"Ethernet", []byte{1, 1, 2, 0, 0, 0, 0, 1}},
		{"InfiniBand", append([]byte{1, 3, 0, 0}, hw...)},
	} {
		m, err := ndp.ParseMessage(slices.Concat(advertisement, link.source))
		if ra, ok := m.(*ndp.RouterAdvertisement); ok {
			fmt.Printf("%s: %d options, %v\n", link.name, len(ra.Options), err)
		} else {
			fmt.Printf("%s: %v\n", link.name, err)
		}
	}
	_, err = ndp.MarshalMessage(&ndp.RouterSolicitation{Options: []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: hw}}})
	fmt.Println("MarshalMessage, InfiniBand:", err)
}
EOF
go get github.com/mdlayher/ndp@v1.1.0 2>/dev/null
CGO_ENABLED=0 go run -mod=mod . 2>&1 | sed "/^go: downloading/d" | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
