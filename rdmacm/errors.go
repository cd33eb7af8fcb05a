package rdmacm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/dialer"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/verbs"
)

// onePeer marks an error of a Listener that concerns one peer. It is temporary for any cause, because
// the listener continues.
func onePeer(err error) error {
	if err == nil {
		return nil
	}
	own := verbs.Error{Op: "accept", Err: err}
	if e, ok := err.(*verbs.Error); ok {
		own = *e
	}
	own.Err = dialer.Temporary{Err: own.Err}
	return &own
}

// isVerb reports whether e is the error of a verb, which names its device, and not of a command of the
// connection manager.
func isVerb(e *verbs.Error) bool { return e.Device != "" }

// ErrDisconnected is the error for the orderly end of a connection. [Conn.Err] and waits return it once
// either side has disconnected or the peer's program has ended.
var ErrDisconnected = errors.New("peer disconnected")

// ErrDeviceRemoved is the error for the removal of the RDMA device. [Conn.Err] then returns it, and the
// error of [Listener.Accept] matches it.
var ErrDeviceRemoved = errors.New("RDMA device removed")

// closeNil returns the error of Close for a nil pointer.
func closeNil(object string) error {
	return &verbs.Error{Op: "close", Object: object, Err: os.ErrInvalid, Hint: "the pointer is nil"}
}

var errUnexpected = errors.New("unexpected event")

// RejectReason is the reason why the peer refused a connection. The numbers are those of the InfiniBand
// architecture, section 12.6.7.2.
type RejectReason uint16

// These are the reasons that programs act upon.
const (
	RejectNoQP             RejectReason = 1
	RejectTimeout          RejectReason = 4
	RejectInvalidServiceID RejectReason = 8 // no listener on that port
	RejectStaleConn        RejectReason = 10
	RejectConsumer         RejectReason = 28 // the peer's program refused, or its kernel on its behalf
	RejectVendorOption     RejectReason = 35 // the peer refuses the options in ConnParam.ECE
)

// These are the reasons of a [Listener]. It sends them in the private data, over every transport, so
// peers that use another library see RejectConsumer.
const (
	firstOwnReason      RejectReason = 0x8000 + iota
	RejectBusy                       // there is no room for the connection now: see ErrBusy
	RejectClosing                    // the Listener is being closed
	RejectOtherProtocol              // see ErrOtherProtocol
	RejectRefused                    // the program refused, or failed to accept
)

func (r RejectReason) String() string {
	if name, ok := rejectReasons[r]; ok {
		return name
	}
	return fmt.Sprintf("RejectReason(%d)", uint16(r))
}

// rejectReasons has the names of the specification, except for two that say what the reason means here.
var rejectReasons = map[RejectReason]string{
	RejectNoQP:                                "no QP",
	abi.IB_CM_REJ_NO_EEC:                      "no EE context",
	abi.IB_CM_REJ_NO_RESOURCES:                "no resources",
	RejectTimeout:                             "timeout",
	abi.IB_CM_REJ_UNSUPPORTED:                 "unsupported request",
	abi.IB_CM_REJ_INVALID_COMM_ID:             "invalid communication ID",
	abi.IB_CM_REJ_INVALID_COMM_INSTANCE:       "invalid communication instance",
	RejectInvalidServiceID:                    "no listener on that port",
	abi.IB_CM_REJ_INVALID_TRANSPORT_TYPE:      "invalid transport service type",
	RejectStaleConn:                           "stale connection",
	abi.IB_CM_REJ_RDC_NOT_EXIST:               "RDC does not exist",
	abi.IB_CM_REJ_INVALID_GID:                 "primary remote port GID rejected",
	abi.IB_CM_REJ_INVALID_LID:                 "primary remote port LID rejected",
	abi.IB_CM_REJ_INVALID_SL:                  "invalid primary SL",
	abi.IB_CM_REJ_INVALID_TRAFFIC_CLASS:       "invalid primary traffic class",
	abi.IB_CM_REJ_INVALID_HOP_LIMIT:           "invalid primary hop limit",
	abi.IB_CM_REJ_INVALID_PACKET_RATE:         "invalid primary packet rate",
	abi.IB_CM_REJ_INVALID_ALT_GID:             "alternate remote port GID rejected",
	abi.IB_CM_REJ_INVALID_ALT_LID:             "alternate remote port LID rejected",
	abi.IB_CM_REJ_INVALID_ALT_SL:              "invalid alternate SL",
	abi.IB_CM_REJ_INVALID_ALT_TRAFFIC_CLASS:   "invalid alternate traffic class",
	abi.IB_CM_REJ_INVALID_ALT_HOP_LIMIT:       "invalid alternate hop limit",
	abi.IB_CM_REJ_INVALID_ALT_PACKET_RATE:     "invalid alternate packet rate",
	abi.IB_CM_REJ_PORT_CM_REDIRECT:            "port and CM redirection",
	abi.IB_CM_REJ_PORT_REDIRECT:               "port redirection",
	abi.IB_CM_REJ_INVALID_MTU:                 "invalid path MTU",
	abi.IB_CM_REJ_INSUFFICIENT_RESP_RESOURCES: "insufficient responder resources",
	RejectConsumer:                            "rejected by the peer program",
	abi.IB_CM_REJ_INVALID_RNR_RETRY:           "invalid RNR retry count",
	abi.IB_CM_REJ_DUPLICATE_LOCAL_COMM_ID:     "duplicate local communication ID",
	abi.IB_CM_REJ_INVALID_CLASS_VERSION:       "unsupported class version",
	abi.IB_CM_REJ_INVALID_FLOW_LABEL:          "invalid primary flow label",
	abi.IB_CM_REJ_INVALID_ALT_FLOW_LABEL:      "invalid alternate flow label",
	RejectVendorOption:                        "vendor options not supported",
	RejectBusy:                                "the peer is busy: try again later",
	RejectClosing:                             "the peer's listener is being closed",
	RejectOtherProtocol:                       "the peer speaks another protocol",
	RejectRefused:                             "the peer's program refused it or failed to accept it",
}

// lookupReason returns the reject reason for a status in the answer to a lookup (SIDR_REP, section 12.11
// of the specification). For a status without a matching reason it returns a number that is not a
// reason.
func lookupReason(status int32) RejectReason {
	switch status {
	case 1: // no service at that address
		return RejectInvalidServiceID
	case 2:
		return RejectConsumer
	case 3:
		return RejectNoQP
	}
	return RejectReason(uint8(status)) + 256
}

// RejectedError is the error for a connection that the peer refused. It matches syscall.ECONNREFUSED for all reasons.
// The text of the reason RejectConsumer names the peer's kernel as a second cause if there is no private data other
// than zeros: only a program sends any. A dial over siw that finds no listener fails with that errno and without a
// RejectedError, on Linux and with a device in software: the kernel's TCP was refused, and there was no peer to answer.
type RejectedError struct {
	// Reason is the peer's reason. On iWARP, which has no reasons, it is 0 unless the peer is a
	// Listener of this package.
	Reason RejectReason
	// Errno is the error that iWARP reports instead of a reason. It is 0 on InfiniBand and RoCE.
	Errno syscall.Errno
	// PrivateData is the private data that the peer passed to Reject. InfiniBand and RoCE pad
	// it with zeros to 148 bytes, and for datagrams to 136.
	PrivateData []byte
}

// Temporary reports whether the peer was busy.
func (e *RejectedError) Temporary() bool { return e.isBusy() }

func (e *RejectedError) Error() string {
	if e.Errno != 0 && e.Reason == 0 {
		return "connection rejected: " + e.Errno.Error()
	}
	s := "connection rejected: " + e.Reason.String()
	if e.Reason == RejectConsumer && e.isSilent() {
		// The kernel gives this reason too, and never private data.
		s += ", or by its kernel (the program ended, closed its end, failed to accept, or listens on other addresses)"
	}
	return s
}

// Is makes a rejection a refused connection, as over TCP. It also matches ErrBusy and ErrOtherProtocol if that is the
// peer's reason.
func (e *RejectedError) Is(target error) bool {
	switch target {
	case syscall.ECONNREFUSED:
		return true
	case ErrBusy:
		return e.isBusy()
	case ErrOtherProtocol:
		return e.Reason == RejectOtherProtocol
	}
	return e.Errno != 0 && target == e.Errno
}

func openError(err error) error {
	e := &verbs.Error{Op: "open", Object: kernel.CMPath, Err: err}
	if path := new(fs.PathError); errors.As(err, &path) {
		e.Err = path.Err
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		e.Err, e.Hint = verbs.ErrNotSupported, "RDMA connection management is available on Linux only"
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.ENXIO):
		e.Hint = "run modprobe rdma_ucm; in a container, also pass in the device node, --device " + kernel.CMPath
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		e.Hint = "the device node normally has mode 0666: check its mode and, in a container, that the devices cgroup allows it"
	}
	return e
}

const newCredentials = "the credentials changed since the channel was opened: open a new one (after setuid, only a newly started program can)"

// commandError explains the errnos whose meaning is the same for all commands. object may be nil. Its
// String method is called only if there is an error.
func commandError(op string, object fmt.Stringer, err error) error {
	if err == nil {
		return nil
	}
	e := &verbs.Error{Op: op, Err: err}
	if object != nil {
		e.Object = object.String()
	}
	switch err {
	case syscall.EACCES:
		e.Hint = newCredentials
	case syscall.ENOENT, syscall.ENXIO:
		e.Hint = "the kernel has dropped this ID: it was destroyed, or its device was removed"
	case syscall.EFAULT, syscall.ENOSPC:
		e.Hint = "the kernel refused the memory passed to it; please report this"
	case syscall.ENOSYS:
		e.Hint = "this kernel does not support it"
	}
	return e
}

// hinted is commandError with hints for one command.
func hinted(op string, object fmt.Stringer, err error, hints map[syscall.Errno]string) error {
	if err == nil {
		return nil
	}
	e := commandError(op, object, err).(*verbs.Error)
	var errno syscall.Errno
	if errors.As(err, &errno) && hints[errno] != "" {
		e.Hint = hints[errno]
	}
	return e
}
