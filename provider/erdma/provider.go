package erdma

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

func init() { driver.Register(provider{}) }

type provider struct{}

func (provider) ID() verbs.DriverID { return verbs.DriverERDMA }

func (provider) ABI() (lowest, highest uint32) { return 0, abi.ERDMA_ABI_VERSION }

// erdmaContext is an open device: its three pages of doorbells, its queue pairs by number,
// and the doorbell records.
type erdmaContext struct {
	device        driver.Device
	sdb, rdb, cdb *mmap.Page
	sdbType       uint32
	sdbOffset     uint64 // in bytes, with sdbEntry
	atomics       bool
	roce          bool // RoCE v2 in place of iWARP
	qps           driver.Table[qp]
	records       records
}

// Open opens a device and maps the doorbells that the kernel chose for the context.
func (provider) Open(r *driver.Open) (driver.Context, error) {
	var resp abi.ErdmaUrespAllocCtx
	if err := r.Do(driver.UHW{Out: abi.Bytes(&resp)}); err != nil {
		return nil, err
	}
	c := &erdmaContext{device: r.Device, sdbType: resp.SdbType, sdbOffset: uint64(resp.SdbOffset) * sdbEntrySize}
	for _, p := range []struct {
		page **mmap.Page
		key  uint64
	}{{&c.sdb, resp.Sdb}, {&c.rdb, resp.Rdb}, {&c.cdb, resp.Cdb}} {
		page, err := r.MapPage(int64(p.key), doorbellPage)
		if err != nil {
			return nil, err
		}
		*p.page = page
	}
	if !c.sdb.Holds(c.sendDoorbell(0), 8) {
		return nil, fmt.Errorf("the kernel returned invalid offset %#x of the send doorbell", c.sendDoorbell(0))
	}
	attr, err := r.Device.Query(nil)
	if err != nil {
		return nil, err
	}
	c.atomics = attr.AtomicCap != verbs.AtomicNone
	c.roce = attr.MaxPKeys > 0 // iWARP has no partitions
	c.records.alloc = r.Device.Alloc
	return c, nil
}

// sendDoorbell returns the offset of a QP's doorbell for sends in its page.
func (c *erdmaContext) sendDoorbell(qpn uint32) uint64 {
	if c.sdbType == sdbEntry {
		return c.sdbOffset
	}
	return uint64(qpn%sdbPerPage) * sdbDistance
}

func recvDoorbell(qpn uint32) int { return int(qpn%rdbPerPage) * rdbDistance }

func cqDoorbell(cqn uint32) int { return int(cqn%cdbPerPage) * cdbDistance }
