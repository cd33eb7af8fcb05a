#!/usr/bin/env bash
# mdlayher/arp gives an InfiniBand address the hardware type of Ethernet.
#
# github.com/mdlayher/arp of 2022-05-12. NewPacket accepts hardware addresses of six bytes and more, such as
# the 20 of IPoIB, and writes their length into the packet. The hardware type is 1, Ethernet, for all. It has to be 32
# for InfiniBand (RFC 4391), and Linux drops an ARP packet whose type is not its interface's.
#
# Seen, hardware type and length:
#   6 bytes: 1 6
#   20 bytes: 1 20
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
	"net/netip"

	"github.com/mdlayher/arp"
)

func main() {
	for _, address := range []string{"02:00:00:00:00:01", "80:00:00:48:fe:80:00:00:00:00:00:00:e4:1d:2d:03:00:0a:0b:0c"} {
		hw, err := net.ParseMAC(address)
		if err != nil {
			log.Fatal(err)
		}
		p, err := arp.NewPacket(arp.OperationReply, hw, netip.MustParseAddr("10.0.0.1"), hw, netip.MustParseAddr("10.0.0.2"))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d bytes: %d %d\n", len(hw), p.HardwareType, p.HardwareAddrLength)
	}
}
EOF
go get github.com/mdlayher/arp@v0.0.0-20220512170110-6706a2966875 2>/dev/null
CGO_ENABLED=0 go run -mod=mod . 2>&1 | sed "/^go: downloading/d" | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
