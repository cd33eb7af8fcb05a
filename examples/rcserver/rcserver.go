// Package rcserver takes the place of versitygw's package of the same name, which is C++ behind cgo: the part of its S3
// server that moves objects by RDMA, with the protocol hipobj-rc-v2. Its types and methods are those of versitygw
// 1.8.0, so that versitygw is built with CGO_ENABLED=0. versitygw.sh does that, and moves objects.
//
// versitygw answers the HTTP requests, and calls this package in this order:
//
//	GET: Prepare, BorrowStaging, FinishStaging, FinishPrepare; then SessionInfo, ReadyTransfer, FinishFinal
//	PUT: Prepare, FinishPrepare; then SessionInfo, ReadyTransfer, GetPutData, FinishPut
package rcserver

//lint:file-ignore ST1003 the names are versitygw's

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"math"
	"math/bits"
	"strings"
	"sync"
	"time"

	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// DeviceOpts configures the service.
type DeviceOpts struct {
	GidHint             string // the beginning of a GID of the device to use, as "%x:%x:%x:%x" of its first bytes; empty allows any device
	Port                uint8  // zero stands for 1
	GidIdx              int    // ignored: each session has a GID of its client's family
	MaxSessions         uint32
	MaxStagingBytes     uint64
	MaxQPs              uint32
	MaxUserSessions     uint32
	MaxUserStagingBytes uint64
	MaxUserQPs          uint32
	TPrepMs             uint64 // between the client's two requests; zero stands for 10 s
	TExecMs             uint64 // for the data; zero stands for 30 s
	MaxReadySlots       uint32 // zero stands for 64
	MaxStageSlots       uint32 // ignored: versitygw does not use it either
}

// PrincipalID identifies the sender of a request.
type PrincipalID [32]byte

// PrepareRequest is the client's first message.
type PrepareRequest struct {
	Principal   PrincipalID
	Op          uint8 // opGet or opPut
	Target      string
	Offset      uint64
	Size        uint64
	ClientPsn   uint32
	Cookie      uint32
	ClientToken string
}

// PrepareResponse is the answer to it.
type PrepareResponse struct {
	SessionID   string
	ServerQpn   uint32
	ServerPsn   uint32
	StagingAddr uint64
	StagingRkey uint32
	ReplyToken  string
}

// Handle identifies what has been lent. Epoch is the session's number and Nonce is never zero.
type Handle struct {
	Epoch uint64
	Nonce uint64
}

// StagingLease is memory for the object of a GET.
type StagingLease struct {
	Buf      []byte
	Capacity int
	Handle   Handle
}

// PutView is the data of a PUT.
type PutView struct {
	Buf    []byte
	Len    int
	Handle Handle
}

// ReadyRequest is the client's second message.
type ReadyRequest struct {
	Principal    PrincipalID
	SessionID    string
	Cookie       uint32
	ClientQpn    uint32
	ClientMrAddr uint64
	ClientMrRkey uint32
}

// ReadyResponse is the answer to it.
type ReadyResponse struct {
	BytesTransferred uint64
	CookieEcho       uint32
	Outcome          int
	Etag             string
	VersionID        string
}

// SessionInfo says what a session does.
type SessionInfo struct {
	Op     uint8
	Target string
}

// The outcomes of a transfer. This package returns ErrWire where versitygw's has others than ReadyOK.
const (
	ReadyOK         = 0
	ReadyBusy       = 1
	ReadyTimeout    = 2
	ReadyVerifyFail = 3
	ReadyWireFail   = 4
)

const (
	opGet = 0
	opPut = 1
)

// versitygw turns these errors into statuses.
var (
	ErrArg       = errors.New("invalid argument")
	ErrState     = errors.New("wrong session state")
	ErrSession   = errors.New("another principal's session, or another cookie")
	ErrStale     = errors.New("stale handle or session")
	ErrNoSession = errors.New("no such session")
	ErrDouble    = errors.New("lent twice")
	ErrWire      = errors.New("the transfer failed")
	ErrShort     = errors.New("no bytes")
	ErrTrunc     = errors.New("value too long")
	ErrLimit     = errors.New("resource limit")
	ErrInternal  = errors.New("internal error")
)

const (
	maxTarget = 2047
	maxTag    = 127
	tokenSize = 44
	rcToken   = 1
	max24Bits = 1<<24 - 1
)

// RCSvc is the service.
type RCSvc struct {
	opts    DeviceOpts
	dev     *uverbs.Device
	pd      *uverbs.PD
	channel *uverbs.CompChannel
	ctx     context.Context
	cancel  context.CancelFunc
	slots   chan struct{} // of transfers
	pools   [32]sync.Pool // of *[]byte, whose length is the power of two

	mu       sync.Mutex // guards the fields below, and those of sessions that change
	closing  bool
	calls    sync.WaitGroup // requests between TryEnter and Leave
	sessions map[string]*session
	epoch    uint64
	total    usage
	users    map[PrincipalID]usage
}

type usage struct {
	sessions uint32
	bytes    uint64
}

type state uint8

const (
	preparing state = iota
	prepared        // and the client knows
	moving
	moved
)

// session is one transfer. It is freed when it is over and nothing of it is lent.
type session struct {
	id    string
	epoch uint64
	req   PrepareRequest
	peer  verbs.GID
	gid   *verbs.GIDEntry
	psn   uint32
	cq    *uverbs.CQ
	qp    *uverbs.QP
	mr    *uverbs.MR
	whole *[]byte // of the pool
	buf   []byte
	ctx   context.Context
	end   context.CancelFunc
	timer *time.Timer

	state     state
	over      bool
	refs      int    // lent memory, Prepare, and a transfer until its answer is made
	nonce     uint64 // of the last lease or view
	lent      bool
	data      []byte // the object of a GET
	etag, tag string
}

// Init opens a device with a RoCE port.
func Init(opts DeviceOpts) (*RCSvc, error) {
	opts.Port, opts.MaxReadySlots = cmp.Or(opts.Port, 1), cmp.Or(opts.MaxReadySlots, 64)
	opts.TPrepMs, opts.TExecMs = cmp.Or(opts.TPrepMs, 10_000), cmp.Or(opts.TExecMs, 30_000)
	s := &RCSvc{opts: opts, slots: make(chan struct{}, opts.MaxReadySlots), sessions: make(map[string]*session), users: make(map[PrincipalID]usage)}
	infos, err := uverbs.Devices()
	if err != nil {
		return nil, err
	}
	for i := range infos {
		if s.dev, err = uverbs.Open(infos[i].Name); err == nil {
			if err = s.use(); err == nil {
				s.ctx, s.cancel = context.WithCancel(context.Background())
				return s, nil
			}
			err = errors.Join(err, s.dev.Close())
		}
	}
	return nil, fmt.Errorf("none of %d RDMA devices will do: %w", len(infos), err)
}

// use prepares the device, if it is the one.
func (s *RCSvc) use() error {
	port, err := s.dev.QueryPort(int(s.opts.Port))
	if err != nil {
		return err
	}
	if port.LinkLayer != verbs.LinkEthernet || s.dev.Info().NodeType == verbs.NodeRNIC {
		return fmt.Errorf("%s: %w: the protocol is for RoCE only", s.dev.Info().Name, verbs.ErrNotSupported)
	}
	table, err := s.dev.GIDTable()
	if err != nil {
		return err
	}
	hinted := s.opts.GidHint == ""
	for _, e := range table {
		text := fmt.Sprintf("%x:%x:%x:%x", e.GID[0], e.GID[1], e.GID[2], e.GID[3])
		hinted = hinted || e.Port == int(s.opts.Port) && strings.HasPrefix(text, s.opts.GidHint)
	}
	if !hinted {
		return fmt.Errorf("%s has no GID that begins with %q", s.dev.Info().Name, s.opts.GidHint)
	}
	if s.pd, err = s.dev.AllocPD(); err != nil {
		return err
	}
	if s.channel, err = s.dev.CreateCompChannel(); err != nil {
		return errors.Join(err, s.pd.Close())
	}
	return nil
}

// Context ends when the service is closed.
func (s *RCSvc) Context() context.Context { return s.ctx }

// TryEnter admits a request, unless the service is closing. Leave ends it.
func (s *RCSvc) TryEnter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.calls.Add(1)
	return true
}

// Leave ends a request.
func (s *RCSvc) Leave() { s.calls.Done() }

// Close ends all transfers, and waits for the requests under way.
func (s *RCSvc) Close() {
	s.mu.Lock()
	closed := s.closing
	s.closing = true
	s.mu.Unlock()
	if closed {
		return
	}
	s.cancel()
	s.calls.Wait()
	s.mu.Lock()
	for _, x := range s.sessions {
		x.refs = 0
		s.finish(x)
	}
	s.mu.Unlock()
	for _, err := range []error{s.channel.Close(), s.pd.Close(), s.dev.Close()} {
		if err != nil {
			log.Print("rcserver: close: ", err)
		}
	}
}

// parseToken returns the number and the GID of the client's queue pair. It ignores an address and a size after the
// token.
func parseToken(text string) (qpn uint32, gid verbs.GID, err error) {
	text, _, _ = strings.Cut(text, ":")
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != tokenSize || b[0] != rcToken {
		return 0, gid, ErrArg
	}
	qpn, gid = binary.LittleEndian.Uint32(b[1:]), verbs.GID(b[5:])
	if qpn == 0 || qpn > max24Bits || gid == (verbs.GID{}) || gid.IsMulticast() {
		return 0, gid, ErrArg
	}
	return qpn, gid, nil
}

// token returns the address of the server's queue pair.
func (x *session) token() string {
	b := append(make([]byte, 0, tokenSize), rcToken)
	b = binary.LittleEndian.AppendUint32(b, x.qp.QPN())
	b = append(b, x.gid.GID[:]...)
	return hex.EncodeToString(append(b, make([]byte, tokenSize-len(b)-3)...)) + fmt.Sprintf("%02x0000", x.gid.Port)
}

// Prepare makes a session, with a queue pair and registered memory.
func (s *RCSvc) Prepare(req PrepareRequest) (*PrepareResponse, error) {
	if req.Op > opPut || req.Size == 0 || req.Size > math.MaxInt32 || req.Offset > math.MaxInt64-req.Size {
		return nil, ErrArg
	}
	if len(req.Target) > maxTarget {
		return nil, ErrTrunc
	}
	_, peer, err := parseToken(req.ClientToken)
	if err != nil {
		return nil, err
	}
	// versitygw's strings are parts of a buffer of its HTTP server, which the next request overwrites.
	req.Target, req.ClientToken = strings.Clone(req.Target), strings.Clone(req.ClientToken)
	var random [20]byte
	_, _ = rand.Read(random[:]) // never fails
	x := &session{id: hex.EncodeToString(random[:16]), req: req, peer: peer, psn: max(binary.BigEndian.Uint32(random[16:])&max24Bits, 1), refs: 1}
	if !s.admit(x) {
		return nil, ErrLimit
	}
	err = s.open(x)
	s.mu.Lock()
	defer s.mu.Unlock()
	x.refs--
	if err != nil || x.over {
		s.finish(x)
		log.Print("rcserver: prepare: ", cmp.Or(err, context.Canceled))
		return nil, ErrInternal
	}
	return &PrepareResponse{SessionID: x.id, ServerQpn: x.qp.QPN(), ServerPsn: x.psn, StagingAddr: x.mr.Addr(), StagingRkey: x.mr.RKey(), ReplyToken: x.token()}, nil
}

// admit counts a session, if the limits allow it.
func (s *RCSvc) admit(x *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, o := s.users[x.req.Principal], &s.opts
	if s.total.sessions >= min(o.MaxSessions, o.MaxQPs) || s.total.bytes+x.req.Size > o.MaxStagingBytes ||
		u.sessions >= min(o.MaxUserSessions, cmp.Or(o.MaxUserQPs, math.MaxUint32)) || u.bytes+x.req.Size > o.MaxUserStagingBytes {
		return false
	}
	s.count(x, 1, x.req.Size)
	s.epoch++
	x.epoch = s.epoch
	x.ctx, x.end = context.WithCancel(s.ctx)
	s.sessions[x.id] = x
	x.timer = time.AfterFunc(time.Duration(s.opts.TPrepMs)*time.Millisecond, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if x.state <= prepared {
			s.finish(x)
		}
	})
	return true
}

// count adds to what a session's principal uses. Both are numbers modulo two to their bits.
func (s *RCSvc) count(x *session, sessions uint32, bytes uint64) {
	u := s.users[x.req.Principal]
	u.sessions += sessions
	u.bytes += bytes
	s.users[x.req.Principal] = u
	if u.sessions == 0 {
		delete(s.users, x.req.Principal)
	}
	s.total.sessions += sessions
	s.total.bytes += bytes
}

// open makes the queue pair and the memory. Only that of a PUT is writable for the client.
func (s *RCSvc) open(x *session) (err error) {
	dev, access, local := s.dev, verbs.Access(0), verbs.Access(0)
	if x.req.Op == opPut {
		access, local = verbs.AccessRemoteWrite, verbs.AccessLocalWrite|verbs.AccessRemoteWrite
	}
	if x.gid, err = dev.ChooseGID(int(s.opts.Port), &uverbs.GIDChoice{IPv4: x.peer.Addr().Is4(), IPv6: !x.peer.Addr().Is4()}); err != nil {
		return err
	}
	if x.cq, err = dev.CreateCQ(2, &uverbs.CQOptions{Channel: s.channel}); err != nil {
		return err
	}
	if x.qp, err = s.pd.CreateQP(&uverbs.QPOptions{SendCQ: x.cq, RecvCQ: x.cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}); err != nil {
		return err
	}
	if err := x.qp.Init(&verbs.QPAttr{Port: int(s.opts.Port), Access: access}); err != nil {
		return err
	}
	class := bits.Len64(x.req.Size - 1)
	var ok bool
	if x.whole, ok = s.pools[class].Get().(*[]byte); !ok {
		b := make([]byte, 1<<class)
		x.whole = &b
	}
	x.buf = (*x.whole)[:x.req.Size] // holds bytes of an earlier object, which are never sent or stored
	x.mr, err = s.pd.RegMR(x.buf, local)
	return err
}

// finish ends a session, and frees it unless something of it is lent. The queue pair goes first: then nobody reaches
// the memory.
func (s *RCSvc) finish(x *session) {
	x.over = true
	x.end()
	if x.refs > 0 || s.sessions[x.id] != x {
		return
	}
	x.timer.Stop()
	delete(s.sessions, x.id)
	s.count(x, ^uint32(0), -x.req.Size)
	var errs []error
	if x.qp != nil {
		errs = append(errs, x.qp.Close())
	}
	if x.cq != nil {
		errs = append(errs, x.cq.Close())
	}
	if x.mr != nil {
		errs = append(errs, x.mr.Close())
	}
	if err := errors.Join(errs...); err != nil {
		log.Print("rcserver: free a session: ", err) // and the device may still use the memory
	} else if x.whole != nil {
		s.pools[bits.Len64(uint64(len(*x.whole)))-1].Put(x.whole)
	}
}

// find returns a session that is not over.
func (s *RCSvc) find(id string) (*session, error) {
	x := s.sessions[id]
	if x == nil {
		return nil, ErrNoSession
	}
	if x.over {
		return nil, ErrStale
	}
	return x, nil
}

// lend gives out the memory of a session once.
func (x *session) lend() (Handle, error) {
	if x.lent {
		return Handle{}, ErrDouble
	}
	x.lent = true
	x.refs++
	x.nonce++
	return Handle{Epoch: x.epoch, Nonce: x.nonce}, nil
}

// back ends the loan of a session, and returns the session.
func (s *RCSvc) back(h Handle) (*session, error) {
	for _, x := range s.sessions {
		if x.epoch == h.Epoch && x.nonce == h.Nonce && x.lent {
			x.lent = false
			x.refs--
			return x, nil
		}
	}
	return nil, ErrStale
}

// BorrowStaging lends the memory for the object of a GET.
func (s *RCSvc) BorrowStaging(sessionID string) (*StagingLease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, err := s.find(sessionID)
	if err != nil {
		return nil, err
	}
	if x.state != preparing || x.req.Op != opGet {
		return nil, ErrStale
	}
	h, err := x.lend()
	if err != nil {
		return nil, err
	}
	return &StagingLease{Buf: x.buf, Capacity: len(x.buf), Handle: h}, nil
}

// FinishStaging takes it back, with the object in its first bytes.
func (s *RCSvc) FinishStaging(lease StagingLease, ok bool, written int, etag, versionID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, err := s.back(lease.Handle)
	switch {
	case err != nil:
		return err
	case !ok:
	case written <= 0 || written > len(x.buf):
		err = ErrShort
	case len(etag) > maxTag || len(versionID) > maxTag:
		err = ErrTrunc
	case !x.over:
		x.data, x.etag, x.tag = x.buf[:written], strings.Clone(etag), strings.Clone(versionID)
		return nil
	}
	s.finish(x)
	return err
}

// FinishPrepare goes on with the session if the client has received its description, and ends it otherwise.
func (s *RCSvc) FinishPrepare(sessionID string, committed bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, err := s.find(sessionID)
	switch {
	case err != nil:
		return err
	case x.state != preparing:
		return ErrStale
	case !committed:
		s.finish(x)
	case x.req.Op == opGet && x.data == nil:
		return ErrState
	default:
		x.state = prepared
	}
	return nil
}

// SessionInfo says what a principal's session does.
func (s *RCSvc) SessionInfo(sessionID string, who PrincipalID) (*SessionInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, err := s.find(sessionID)
	if err != nil {
		return nil, err
	}
	if x.req.Principal != who {
		return nil, ErrSession
	}
	return &SessionInfo{Op: x.req.Op, Target: x.req.Target}, nil
}

// ReadyTransfer moves the data. After an error, the session is over unless the request was not for it.
func (s *RCSvc) ReadyTransfer(req ReadyRequest) (*ReadyResponse, error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		return nil, ErrLimit
	}
	x, err := s.claim(&req)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(x.ctx, time.Duration(s.opts.TExecMs)*time.Millisecond)
	n, err := x.move(ctx, &req)
	cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || x.over {
		log.Print("rcserver: transfer: ", cmp.Or(err, context.Canceled))
		x.refs--
		s.finish(x)
		return nil, ErrWire
	}
	x.state = moved
	return &ReadyResponse{BytesTransferred: n, CookieEcho: req.Cookie, Outcome: ReadyOK, Etag: x.etag, VersionID: x.tag}, nil
}

// claim takes a session for its transfer.
func (s *RCSvc) claim(req *ReadyRequest) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, err := s.find(req.SessionID)
	switch {
	case err != nil:
		return nil, err
	case x.req.Principal != req.Principal, x.req.Cookie != req.Cookie:
		return nil, ErrSession
	case x.state != prepared:
		return nil, ErrState
	}
	if qpn, _, _ := parseToken(x.req.ClientToken); qpn != req.ClientQpn || req.ClientMrAddr+x.req.Size < req.ClientMrAddr {
		return nil, ErrArg
	}
	x.state = moving
	x.refs++
	x.timer.Stop()
	return x, nil
}

// move connects the queue pair, and moves the data through it. It returns their number.
func (x *session) move(ctx context.Context, req *ReadyRequest) (uint64, error) {
	if x.req.Op == opPut {
		if _, err := x.qp.PostRecv([]verbs.RecvWR{{}}); err != nil {
			return 0, err
		}
	}
	ah := verbs.AHAttr{Global: true, DGID: x.peer, SGIDIndex: x.gid.Index, HopLimit: 64, Port: x.gid.Port}
	if err := x.qp.Connect(&verbs.QPAttr{Port: x.gid.Port, AH: ah, DestQPN: req.ClientQpn, RQPSN: x.req.ClientPsn, SQPSN: x.psn}); err != nil {
		return 0, err
	}
	if x.req.Op == opGet {
		wr := verbs.SendWR{Opcode: verbs.OpRDMAWriteImm, Flags: verbs.SendSignaled, SGL: []verbs.SGE{x.mr.SGE(0, len(x.data))},
			RemoteAddr: req.ClientMrAddr, RKey: req.ClientMrRkey, Imm: req.Cookie}
		if _, err := x.qp.PostSend([]verbs.SendWR{wr}); err != nil {
			return 0, err
		}
	}
	var wc [1]verbs.WC
	if _, err := x.cq.Wait(ctx, wc[:]); err != nil {
		return 0, err
	}
	switch w := &wc[0]; {
	case w.Err() != nil:
		return 0, w.Err()
	case x.req.Op == opGet:
		return uint64(len(x.data)), nil
	case w.Opcode != verbs.WCRecvRDMAWithImm || w.Imm != x.req.Cookie || uint64(w.ByteLen) != x.req.Size:
		return 0, fmt.Errorf("%v of %d bytes with immediate data %#x has arrived, want %d bytes with %#x", w.Opcode, w.ByteLen, w.Imm, x.req.Size, x.req.Cookie)
	}
	return x.req.Size, nil
}

// GetPutData lends the data of a PUT, which the client can't change any more.
func (s *RCSvc) GetPutData(sessionID string) (*PutView, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, err := s.find(sessionID)
	if err != nil {
		return nil, err
	}
	if x.state != moved || x.req.Op != opPut {
		return nil, ErrState
	}
	h, err := x.lend()
	if err != nil {
		return nil, err
	}
	x.refs-- // that of the transfer, which FinishFinal ends otherwise
	err = x.mr.Close()
	x.mr = nil
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInternal, err)
	}
	return &PutView{Buf: x.buf, Len: len(x.buf), Handle: h}, nil
}

// FinishPut takes it back, and ends the session.
func (s *RCSvc) FinishPut(view PutView, _ bool, etag, versionID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, err := s.back(view.Handle)
	if err != nil {
		return err
	}
	s.finish(x)
	if len(etag) > maxTag || len(versionID) > maxTag {
		return ErrTrunc
	}
	return nil
}

// FinishFinal ends a session whose data have been moved.
func (s *RCSvc) FinishFinal(sessionID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.sessions[sessionID]
	switch {
	case x == nil:
		return ErrNoSession
	case x.state != moved || x.lent:
		return ErrState
	}
	x.refs = 0
	s.finish(x)
	return nil
}

// Cancel ends a session. To others than its principal it is as if it had ended.
func (s *RCSvc) Cancel(sessionID string, who PrincipalID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, err := s.find(sessionID)
	if err != nil || x.req.Principal != who {
		return ErrStale
	}
	s.finish(x)
	return nil
}
