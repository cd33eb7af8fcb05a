#!/usr/bin/env bash
# procfs returns no ARP entry at all if one neighbour is on IPoIB.
#
# github.com/prometheus/procfs v0.23.0. Linux cuts long hardware addresses in /proc/net/arp: the file has nine
# of the 20 bytes of an IPoIB address. net.ParseMAC refuses nine bytes, and GatherARPEntries then fails for
# the whole file, so the host's neighbours on Ethernet are missing too.
#
# Seen:
#   Ethernet: [eth0 192.168.1.1], <nil>
#   Ethernet and IPoIB: [], error parsing file: Failed to parse ARP entry: {<nil>   0}: address 80:00:00:48:fe:80:00:00:00: invalid MAC address
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
	"os"

	"github.com/prometheus/procfs"
)

func main() {
	arp := "IP address       HW type     Flags       HW address            Mask     Device\n" +
		"192.168.1.1      0x1         0x2         02:00:00:00:00:01     *        eth0\n"
	ipoib := "10.0.0.2         0x20        0x2         80:00:00:48:fe:80:00:00:00     *        ib0\n"
	for _, file := range []struct{ name, text string }{{"Ethernet", arp}, {"Ethernet and IPoIB", arp + ipoib}} {
		if err := os.MkdirAll("proc/net", 0o700); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile("proc/net/arp", []byte(file.text), 0o600); err != nil {
			log.Fatal(err)
		}
		fs, err := procfs.NewFS("proc")
		if err != nil {
			log.Fatal(err)
		}
		entries, err := fs.GatherARPEntries()
		found := []string{}
		for _, e := range entries {
			found = append(found, e.Device+" "+e.IPAddr.String())
		}
		fmt.Printf("%s: %v, %v\n", file.name, found, err)
	}
}
EOF
go get github.com/prometheus/procfs@v0.23.0 2>/dev/null
CGO_ENABLED=0 go run -mod=mod . 2>&1 | sed "/^go: downloading/d" | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
