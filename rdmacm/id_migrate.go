package rdmacm

import (
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
)

// Migrate moves id, and the events still queued for it, to another channel. It
// waits until the events already got for it are acknowledged.
//
// C: rdma_migrate_id
func (id *ID) Migrate(to *EventChannel) error {
	id.joins.Lock()
	from, groups := id.channel(), slices.Clone(id.groups)
	if from == to {
		id.joins.Unlock()
		return nil
	}
	to.add(id, groups...) // before the kernel may report there
	r := newRequest[abi.RdmaUcmMigrateId, abi.RdmaUcmMigrateResp](abi.RDMA_USER_CM_CMD_MIGRATE_ID)
	defer r.free()
	r.body.Response, r.body.Id = r.respAddr(), id.handle
	var err error
	if lent := from.file.Descriptor(func(fd uint32) {
		r.body.Fd = fd
		err = to.file.Command(r.in(), r.out())
	}); lent != nil {
		err = lent
	}
	if err != nil {
		to.remove(id, groups...)
		id.joins.Unlock()
		return commandError("migrate", id, closedError(err))
	}
	id.mu.Lock()
	id.ch = to
	id.mu.Unlock()
	id.joins.Unlock()
	id.waitAcked(r.resp.EventsReported)
	from.remove(id, groups...)
	return nil
}
