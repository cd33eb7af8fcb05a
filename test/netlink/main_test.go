//go:build vm

// Package netlink holds the kernel tests of package netlinkrdma, and compares rdmalink with iproute2's rdma.
package netlink

import (
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m, nil) }
