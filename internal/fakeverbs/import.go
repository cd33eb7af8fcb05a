package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// Dup has the file be one that another process got a descriptor of: it is closed when it was
// closed once more.
func (k *Kernel) Dup() *Kernel {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.others++
	return k
}

var ContextAttrs = []MethodAttr{
	Out(abi.UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, 4).Optional(),
	Out(abi.UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, 8).Optional(),
}

type contextQuerier interface{ QueryContext(*ioctl.Request) }

// QueryContext is for drivers that tell another process what they told the first.
func (k *Kernel) QueryContext(r *ioctl.Request) error {
	m, ok := k.Model.(contextQuerier)
	switch {
	case !k.context:
		return syscall.EINVAL
	case !ok:
		return syscall.EOPNOTSUPP
	}
	n := uint32(CompVectors)
	ioctl.Answer(r, abi.UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, &n)
	m.QueryContext(r)
	return nil
}
