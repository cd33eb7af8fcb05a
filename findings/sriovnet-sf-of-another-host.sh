#!/usr/bin/env bash
# sriovnet takes the representor of another host's subfunction for the uplink's own.
#
# github.com/k8snetworkplumbingwg/sriovnet v1.2.0. The DPU's own processor and the host number their
# subfunctions independently. In phys_port_name the host is a controller: its subfunction 4 is c1pf0sf4, and
# the DPU's own is pf0sf4. GetSfRepresentor compares the 4 and ignores the controller. It returns the first
# match in alphabetical order, here the host's. There is no error.
#
# Seen, with en3f0pf0sf4 (pf0sf4) and en3f0c1pf0sf4 (c1pf0sf4):
#   GetSfRepresentor: en3f0c1pf0sf4 <nil>
#   without the host's: en3f0pf0sf4 <nil>
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

	"github.com/k8snetworkplumbingwg/sriovnet"
)

// add makes the files of a network device of the card. The program runs in a root of its own.
func add(name, port string) {
	dir := "/sys/devices/card/net/" + name
	for _, err := range []error{
		os.MkdirAll(dir, 0o700),
		os.MkdirAll("/sys/class/net", 0o700),
		os.WriteFile(dir+"/phys_port_name", []byte(port+"\n"), 0o600),
		os.WriteFile(dir+"/phys_switch_id", []byte("0a0b0c\n"), 0o600),
		os.Symlink("../..", dir+"/device"),
		os.Symlink(dir, "/sys/class/net/"+name),
	} {
		if err != nil {
			log.Fatal(err)
		}
	}
}

func main() {
	add("p0", "p0")
	add("en3f0pf0sf4", "pf0sf4")
	add("en3f0c1pf0sf4", "c1pf0sf4")
	name, err := sriovnet.GetSfRepresentor("p0", 4)
	fmt.Println("GetSfRepresentor:", name, err)
	if err := os.RemoveAll("/sys/devices/card/net/en3f0c1pf0sf4"); err != nil {
		log.Fatal(err)
	}
	name, err = sriovnet.GetSfRepresentor("p0", 4)
	fmt.Println("without the host's:", name, err)
}
EOF
go get github.com/k8snetworkplumbingwg/sriovnet@v1.2.0 2>/dev/null
mkdir root
CGO_ENABLED=0 go build -mod=mod -o root/try . 2>/dev/null
unshare --map-root-user chroot root /try | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
