package uverbs

import (
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/rss"
)

// RSSOptions describe a QP that deals packets out to a table's WQs.
//
// C: struct ibv_qp_init_attr_ex with rwq_ind_tbl and rx_hash_conf
type RSSOptions struct {
	Type  verbs.QPType // QPTypeRawPacket if it is 0, which needs CAP_NET_RAW; or QPTypeUD
	Table *RWQIndTable // needed
	Hash  rss.Hash
	Flags verbs.QPFlags
}

// CreateRSSQP makes a QP that has no queues: what it receives goes to the WQs of a table, and
// nothing can be posted. Flow rules give it packets ([QP.CreateFlow]).
//
// C: ibv_create_qp_ex with rwq_ind_tbl
func (pd *PD) CreateRSSQP(opts *RSSOptions) (*QP, error) {
	dev := pd.dev
	if dev.provider == nil {
		return nil, dev.noProvider("create", "QP")
	}
	if opts == nil || opts.Table == nil {
		return nil, &Error{Op: "create", Object: "QP", Device: dev.info.Name, Err: syscall.EINVAL, Hint: "RSSOptions must name a table"}
	}
	qp := &QP{dev: dev, pd: pd, typ: opts.Type, ring: noQueues{}, cookie: dev.cookie()}
	if qp.typ == 0 {
		qp.typ = verbs.QPTypeRawPacket
	}
	if err := qp.attach("QP", &pd.object, &opts.Table.object); err != nil {
		return nil, err
	}
	if err := qp.createRSS(opts); err != nil {
		qp.detach()
		return nil, qp.fail("create", err, createHint(err))
	}
	qp.setNumber(qp.num)
	return qp, nil
}

func (qp *QP) createRSS(opts *RSSOptions) error {
	creator, ok := qp.dev.provider.(driver.WQCreator)
	if !ok {
		return verbs.ErrNotSupported
	}
	c := qp.dev.creation(nil)
	r := &driver.CreateRSSQP{Call: c, Type: qp.typ, Flags: opts.Flags, Hash: opts.Hash, PD: qp.pd.data}
	c.issue = func(u driver.UHW, extra []driver.Attr) error { return qp.issueCreateRSS(r, opts, u, extra) }
	err := creator.CreateRSSQP(r)
	if err = c.made(err, func() error { return qp.issueDestroy(r.Handle) }); err != nil {
		return err
	}
	qp.memory = c.memory
	qp.dev.events.add(qp.cookie, AsyncEvent{QP: qp})
	return nil
}

func (qp *QP) issueCreateRSS(r *driver.CreateRSSQP, opts *RSSOptions, u driver.UHW, extra []driver.Attr) error {
	var capIn, capOut abi.IbUverbsQpCap
	q := qp.dev.request(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE)
	defer q.Free()
	q.NewObject(abi.UVERBS_ATTR_CREATE_QP_HANDLE)
	q.Handle(abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE, qp.pd.handle)
	q.Handle(abi.UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE, opts.Table.handle)
	q.U64(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE, qp.cookie)
	q.Const(abi.UVERBS_ATTR_CREATE_QP_TYPE, uint64(r.Type))
	if r.Flags != 0 {
		q.Flags(abi.UVERBS_ATTR_CREATE_QP_FLAGS, uint32(r.Flags))
	}
	ioctl.In(q, abi.UVERBS_ATTR_CREATE_QP_CAP, &capIn)
	ioctl.Out(q, abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, &capOut)
	ioctl.Out(q, abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &r.Num)
	if err := qp.dev.doWith(q, u, extra); err != nil {
		return err
	}
	r.Handle = q.Created(abi.UVERBS_ATTR_CREATE_QP_HANDLE)
	qp.handle, qp.num = r.Handle, r.Num
	return nil
}

// noQueues stands for the queues that a QP has not: a target QP of XRC, or one that deals
// out to WQs.
type noQueues struct{}

var errNoQueues = fmt.Errorf("%w: the QP has no queues of its own", verbs.ErrNotSupported)

// PostSend implements driver.QP.
func (noQueues) PostSend([]verbs.SendWR) (int, error) { return 0, errNoQueues }

// PostRecv implements driver.QP.
func (noQueues) PostRecv([]verbs.RecvWR) (int, error) { return 0, errNoQueues }
