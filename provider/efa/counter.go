package efa

import (
	"fmt"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// CreateCompCounter implements driver.CompCounterCreator. Both numbers are in memory of the process, each in a
// cache line of its own.
func (c *efaContext) CreateCompCounter(r driver.Call) (successes, failures *atomic.Uint64, err error) {
	const line = 64
	if !c.has(abi.EFA_QUERY_DEVICE_CAPS_COMP_CNTR) {
		return nil, nil, fmt.Errorf("%w: the device has none", verbs.ErrNotSupported)
	}
	m, err := r.Alloc(2*line, nil)
	if err != nil {
		return nil, nil, err
	}
	if successes, err = m.Word64(0); err != nil {
		return nil, nil, err
	}
	if failures, err = m.Word64(line); err != nil {
		return nil, nil, err
	}
	word := func(offset uint64) []byte {
		d := abi.IbUverbsBufferDesc{Type: abi.IB_UVERBS_BUFFER_TYPE_VA, Addr: m.Addr() + offset, Length: 8}
		return abi.Bytes(&d)
	}
	return successes, failures, r.Do(driver.UHW{},
		driver.Attr{ID: abi.EFA_IB_ATTR_CREATE_COMP_CNTR_COMP_BUFFER, In: word(0)},
		driver.Attr{ID: abi.EFA_IB_ATTR_CREATE_COMP_CNTR_ERR_BUFFER, In: word(line)})
}
