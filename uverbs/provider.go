package uverbs

import (
	"sync"

	"github.com/goverbs/goverbs/internal/ioctl"
)

// Provider knows the queues of one kernel driver. It is asked for the user-space
// half of every object that has one; the kernel's half is this package's. A
// provider never makes a system call: it calls Create of the request it got,
// with the bytes that only its kernel driver understands, maps what the kernel
// offers or allocates what the kernel asks for, and returns the queue.
// ARCHITECTURE.md tells how to add one.
type Provider interface {
	// DriverID is the kernel driver that the provider belongs to.
	DriverID() DriverID
	// ABI is the range of the driver's uverbs ABI versions that it speaks.
	ABI() (lowest, highest uint32)
	// OpenContext carries out r (GET_CONTEXT).
	OpenContext(r *ContextRequest) (ProviderContext, error)
}

// ProviderContext is a provider's view of one open device. Its methods may be
// called concurrently.
type ProviderContext interface {
	CreateCQ(r *CQRequest) (CQRing, error)
	CreateQP(r *QPRequest) (QPRing, error)
	CreateSRQ(r *SRQRequest) (SRQRing, error)
	RegMR(r *MRRequest) error
	// CreateAH returns what PostSend will want to know of the address; it finds
	// it with Driver of the AH.
	CreateAH(r *AHRequest) (any, error)
}

// CQRing is the user-space half of a CQ. The CQ serialises the calls.
type CQRing interface {
	// Poll fills wcs from its start with what is ready, and says how many there are
	// and whether one of them is bad: anything but a success.
	Poll(wcs []WC) (n int, bad bool, err error)
	// Arm asks for one event at the next completion. The CQ's lock is taken after it
	// by whoever polls, and is a barrier.
	Arm(solicitedOnly bool) error
	// Resize carries out r and goes on with the queue that comes of it, in which
	// are the completions that were not polled yet. An error after r's Create is
	// the end of the queue.
	Resize(r *CQRequest) error
}

// QPRing is the user-space half of a QP. The QP serialises PostSend, serialises
// PostRecv, and calls Fail and Move with both held off.
type QPRing interface {
	PostSend(wrs []SendWR) (int, error)
	PostRecv(wrs []RecvWR) (int, error)
	// Fail tells that the QP is in the error state or going there, or that a
	// completion with an error was polled, which is the same on most QPs. A provider
	// whose device leaves work requests of a failed QP uncompleted has them
	// completed.
	Fail()
	// Move has the kernel put the QP into a state, by calling move, and does what
	// the queues need there: for another life in RESET, for one.
	Move(to QPState, move func() error) error
}

// SRQRing is the user-space half of an SRQ. The SRQ serialises the calls.
type SRQRing interface {
	PostRecv(wrs []RecvWR) (int, error)
	// Modify carries out r and goes on with the queue that comes of it, in which
	// are the receives that were not used yet. An error after r's Create is the
	// end of the queue.
	Modify(r *SRQModifyRequest) error
}

// UHW is what a create call carries between a provider and its kernel driver.
type UHW = ioctl.UHW

var providers struct {
	sync.RWMutex
	byID map[DriverID]Provider
}

// Register makes a provider known; a provider's package does so when it is
// imported. A later provider for the same driver replaces an earlier one, for
// devices opened from then on.
func Register(p Provider) {
	providers.Lock()
	defer providers.Unlock()
	if providers.byID == nil {
		providers.byID = make(map[DriverID]Provider)
	}
	providers.byID[p.DriverID()] = p
}

func providerFor(id DriverID) Provider {
	providers.RLock()
	defer providers.RUnlock()
	return providers.byID[id]
}
