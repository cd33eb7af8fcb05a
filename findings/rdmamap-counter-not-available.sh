#!/usr/bin/env bash
# rdmamap reports 0 for a counter that the device can't read.
#
# github.com/Mellanox/rdmamap v1.1.0. Where a port lacks the performance attribute that a counter
# comes from, Linux's file of that counter says "N/A (no PMA)". GetRdmaSysfsStats could leave the counter out or
# return an error. It reports the value 0, like that of a counter which counted nothing.
#
# Seen:
#   link_downed 0
#   port_xmit_data 41
#   symbol_error 0
#   error <nil>
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
	"sort"

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
	counters := "/sys/class/infiniband/hca0/ports/1/counters/"
	write(counters+"link_downed", "0\n")
	write(counters+"port_xmit_data", "41\n")
	write(counters+"symbol_error", "N/A (no PMA)\n")
	stats, err := rdmamap.GetRdmaSysfsStats("hca0", 1)
	sort.Slice(stats, func(i, j int) bool { return stats[i].Name < stats[j].Name })
	for _, s := range stats {
		fmt.Println(s.Name, s.Value)
	}
	fmt.Println("error", err)
}
EOF
go get github.com/Mellanox/rdmamap@v1.1.0 2>/dev/null
mkdir root
CGO_ENABLED=0 go build -mod=mod -o root/try . 2>/dev/null
unshare --map-root-user chroot root /try | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
