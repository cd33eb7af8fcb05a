#!/usr/bin/env bash
# containerd's cgroup library drops a limit on RDMA that gives one of the two numbers.
#
# github.com/containerd/cgroups/v3 v3.1.3. The OCI runtime specification asks for at least one of hcaHandles
# and hcaObjects, and the kernel keeps a limit that isn't written to rdma.max. ToResources turns such a
# specification into the resources of cgroup2. A device with both numbers gets its line, and one with a single
# number gets none. There is no error. github.com/opencontainers/cgroups v0.1.0 writes the single number.
#
# Seen, the lines for rdma.max:
#   both: mlx5_0 hca_handle=10 hca_object=2000
#   handles: none
#   objects: none
#   opencontainers, handles: mlx5_0 hca_handle=10
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

	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/fscommon"
	"github.com/opencontainers/runtime-spec/specs-go"
)

func main() {
	handles, objects := uint32(10), uint32(2000)
	for _, limit := range []struct {
		name string
		rdma specs.LinuxRdma
	}{
		{"both", specs.LinuxRdma{HcaHandles: &handles, HcaObjects: &objects}},
		{"handles", specs.LinuxRdma{HcaHandles: &handles}},
		{"objects", specs.LinuxRdma{HcaObjects: &objects}},
	} {
		r := cgroup2.ToResources(&specs.LinuxResources{Rdma: map[string]specs.LinuxRdma{"mlx5_0": limit.rdma}})
		line := "none"
		for _, entry := range r.RDMA.Limit {
			line = entry.String()
		}
		fmt.Printf("%s: %s\n", limit.name, line)
	}

	cgroups.TestMode = true // a plain directory stands for the cgroup
	if err := os.WriteFile("rdma.max", nil, 0o600); err != nil {
		log.Fatal(err)
	}
	r := &cgroups.Resources{Rdma: map[string]cgroups.LinuxRdma{"mlx5_0": {HcaHandles: &handles}}}
	if err := fscommon.RdmaSet(".", r); err != nil {
		log.Fatal(err)
	}
	line, err := os.ReadFile("rdma.max")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("opencontainers, handles: %s\n", line)
}
EOF
go get github.com/containerd/cgroups/v3@v3.1.3 github.com/opencontainers/cgroups@v0.1.0 github.com/opencontainers/runtime-spec@v1.3.0 2>/dev/null
CGO_ENABLED=0 go run -mod=mod . 2>&1 | sed "/^go: downloading/d" | tee out
sed -n "/^# Seen/,/^set/s/^#   //p" "$script" | diff - out
