#!/usr/bin/env bash
# rdmamap finds only one umad and one issm device of a device with two ports.
#
# github.com/Mellanox/rdmamap v1.1.0. Linux makes a umad and an issm device for each InfiniBand port. Device
# plugins ask GetRdmaCharDevices which files a container needs. For a device with two ports it returns one
# umad and one issm, so the container lacks the others.
#
# Seen, in directories that hold umad0 and umad1, issm0 and issm1 of hca0:
#   ports: 2
#   issm devices: 1
#   umad devices: 1
#   uverbs devices: 1
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
	"strings"

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
	for _, port := range []string{"1", "2"} {
		write("/sys/class/infiniband/hca0/ports/"+port+"/link_layer", "InfiniBand\n")
	}
	for i, name := range []string{"umad0", "umad1", "issm0", "issm1"} {
		write("/sys/class/infiniband_mad/"+name+"/ibdev", "hca0\n")
		write("/sys/class/infiniband_mad/"+name+"/port", fmt.Sprintln(i%2+1))
	}
	write("/sys/class/infiniband_verbs/uverbs0/ibdev", "hca0\n")
	fmt.Println("ports:", len(rdmamap.GetPorts("hca0")))
	files := strings.Join(rdmamap.GetRdmaCharDevices("hca0"), " ")
	for _, kind := range []string{"issm", "umad", "uverbs"} {
		fmt.Println(kind, "devices:", strings.Count(files, kind))
	}
}
EOF
go get github.com/Mellanox/rdmamap@v1.1.0 2>/dev/null
mkdir root
CGO_ENABLED=0 go build -mod=mod -o root/try . 2>/dev/null
unshare --map-root-user chroot root /try | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
