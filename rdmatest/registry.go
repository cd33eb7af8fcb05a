package rdmatest

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/kernel"
)

// registry keeps the names and addresses of all fabrics of the process apart.
var registry = names{used: make(map[any]*Fabric)}

type names struct {
	sync.Mutex
	used map[any]*Fabric
}

// forget frees what a fabric has.
func (n *names) forget(f *Fabric) {
	n.Lock()
	defer n.Unlock()
	for name, owner := range n.used {
		if owner == f {
			delete(n.used, name)
		}
	}
}

// lowest takes the first name that is free. The lock is held.
func lowest[T comparable](f *Fabric, name func(i int) T) T {
	for i := 0; ; i++ {
		if n := name(i); registry.used[n] == nil {
			registry.used[n] = f
			return n
		}
	}
}

// nextIndex is a device's for netlink. As with a kernel, no device gets that of another.
func nextIndex() uint32 { return kernel.FirstIndex + lastIndex.Add(1) }

var lastIndex atomic.Uint32

func freeName(f *Fabric, k Kind) string {
	return lowest(f, func(i int) string { return fmt.Sprintf(kinds[k].nameFormat, k, i) })
}

// freeAddr is of 198.18.0.0/15, which is set aside for tests of networks.
func freeAddr(f *Fabric) netip.Addr {
	return lowest(f, func(i int) netip.Addr {
		i++
		return netip.AddrFrom4([4]byte{198, byte(18 + i>>16), byte(i >> 8), byte(i)})
	})
}
