#!/usr/bin/env bash
# rdmamap returns no counters, and no error, of a port that has no hw_counters.
#
# github.com/Mellanox/rdmamap v1.1.0. Not every driver has a directory hw_counters beside the standard
# counters. GetRdmaSysfsAllStats of a port without it leaves out the standard counters too and gives
# the port the number 0. The error is nil. GetRdmaSysfsStats reads the counters of the same port.
#
# Seen:
#   GetRdmaSysfsStats: [{port_xmit_data 41}] <nil>
#   GetRdmaSysfsAllStats without hw_counters: {HwStats:[] Stats:[] Port:0} <nil>
#   GetRdmaSysfsAllStats with hw_counters: {HwStats:[{Name:rnr_nak_retry_err Value:7}] Stats:[{Name:port_xmit_data Value:41}] Port:1} <nil>
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
	"path/filepath"

	"github.com/Mellanox/rdmamap"
)

// write makes a file as Linux has it. The program runs in a root of its own.
func write(name, text string) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		log.Fatal(err)
	}
}

func main() {
	port := "/sys/class/infiniband/hca0/ports/1/"
	write(port+"counters/port_xmit_data", "41\n")
	stats, err := rdmamap.GetRdmaSysfsStats("hca0", 1)
	fmt.Println("GetRdmaSysfsStats:", stats, err)
	all, err := rdmamap.GetRdmaSysfsAllStats("hca0", 1)
	fmt.Printf("GetRdmaSysfsAllStats without hw_counters: %+v %v\n", all, err)
	write(port+"hw_counters/rnr_nak_retry_err", "7\n")
	all, err = rdmamap.GetRdmaSysfsAllStats("hca0", 1)
	fmt.Printf("GetRdmaSysfsAllStats with hw_counters: %+v %v\n", all, err)
}
EOF
go get github.com/Mellanox/rdmamap@v1.1.0 2>/dev/null
mkdir root
CGO_ENABLED=0 go build -mod=mod -o root/try . 2>/dev/null
unshare --map-root-user chroot root /try | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
