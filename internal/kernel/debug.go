package kernel

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/debug"
)

// printedCM is a CM whose commands are printed.
type printedCM struct{ CM }

// Command implements CM.
func (p printedCM) Command(in, out []byte) error {
	began := time.Now()
	err := p.CM.Command(in, out)
	debug.Print("cm", began, describeCM(in, out, err), err)
	return err
}

// Await implements CM. The duration that it prints includes the wait for an event.
func (p printedCM) Await(ctx context.Context, in, out []byte) error {
	began := time.Now()
	err := p.CM.Await(ctx, in, out)
	debug.Print("cm", began, describeCM(in, out, err), err)
	return err
}

// Close implements CM.
func (p printedCM) Close() error {
	began := time.Now()
	err := p.CM.Close()
	debug.Print("cm", began, "close", err)
	return err
}

// describeCM returns the name of a command and the ID that it is about. err is the
// command's error; without one, out has the ID of CREATE_ID and the event of GET_EVENT.
func describeCM(in, out []byte, err error) string {
	header := view[abi.RdmaUcmCmdHdr](in)
	body := in[min(len(in), len(abi.Bytes(&header))):]
	name := fmt.Sprintf("command %d", header.Cmd)
	if int64(header.Cmd) < int64(len(cmCommands)) {
		name = cmCommands[header.Cmd]
	}
	switch header.Cmd {
	case abi.RDMA_USER_CM_CMD_CREATE_ID:
		if err == nil {
			return fmt.Sprintf("%s ID %d", name, view[abi.RdmaUcmCreateIdResp](out).Id)
		}
	case abi.RDMA_USER_CM_CMD_GET_EVENT:
		if err == nil {
			event := view[abi.RdmaUcmEventResp](out)
			return fmt.Sprintf("%s %s ID %d status %d", name, eventName(event.Event), event.Id, int32(event.Status))
		}
	default:
		if id, ok := cmID(header.Cmd, body); ok {
			return fmt.Sprintf("%s ID %d", name, id)
		}
	}
	return name
}

// view copies the struct that b begins with. Bytes that are missing are zero.
func view[T any](b []byte) (v T) {
	copy(abi.Bytes(&v), b)
	return v
}

// cmID returns the ID that a command is about. GET_OPTION, which the kernel never had, is
// the only other command that has one.
func cmID(command uint32, body []byte) (uint32, bool) {
	switch command {
	case abi.RDMA_USER_CM_CMD_DESTROY_ID, abi.RDMA_USER_CM_CMD_LEAVE_MCAST:
		return view[abi.RdmaUcmDestroyId](body).Id, true
	case abi.RDMA_USER_CM_CMD_BIND_IP:
		return view[abi.RdmaUcmBindIp](body).Id, true
	case abi.RDMA_USER_CM_CMD_RESOLVE_IP:
		return view[abi.RdmaUcmResolveIp](body).Id, true
	case abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE:
		return view[abi.RdmaUcmResolveRoute](body).Id, true
	case abi.RDMA_USER_CM_CMD_QUERY_ROUTE, abi.RDMA_USER_CM_CMD_QUERY:
		return view[abi.RdmaUcmQuery](body).Id, true
	case abi.RDMA_USER_CM_CMD_CONNECT:
		return view[abi.RdmaUcmConnect](body).Id, true
	case abi.RDMA_USER_CM_CMD_LISTEN:
		return view[abi.RdmaUcmListen](body).Id, true
	case abi.RDMA_USER_CM_CMD_ACCEPT:
		return view[abi.RdmaUcmAccept](body).Id, true
	case abi.RDMA_USER_CM_CMD_REJECT:
		return view[abi.RdmaUcmReject](body).Id, true
	case abi.RDMA_USER_CM_CMD_DISCONNECT:
		return view[abi.RdmaUcmDisconnect](body).Id, true
	case abi.RDMA_USER_CM_CMD_INIT_QP_ATTR:
		return view[abi.RdmaUcmInitQpAttr](body).Id, true
	case abi.RDMA_USER_CM_CMD_SET_OPTION:
		return view[abi.RdmaUcmSetOption](body).Id, true
	case abi.RDMA_USER_CM_CMD_NOTIFY:
		return view[abi.RdmaUcmNotify](body).Id, true
	case abi.RDMA_USER_CM_CMD_JOIN_IP_MCAST:
		return view[abi.RdmaUcmJoinIpMcast](body).Id, true
	case abi.RDMA_USER_CM_CMD_MIGRATE_ID:
		return view[abi.RdmaUcmMigrateId](body).Id, true
	case abi.RDMA_USER_CM_CMD_BIND:
		return view[abi.RdmaUcmBind](body).Id, true
	case abi.RDMA_USER_CM_CMD_RESOLVE_ADDR:
		return view[abi.RdmaUcmResolveAddr](body).Id, true
	case abi.RDMA_USER_CM_CMD_JOIN_MCAST:
		return view[abi.RdmaUcmJoinMcast](body).Id, true
	case abi.RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE:
		return view[abi.RdmaUcmResolveIbService](body).Id, true
	case abi.RDMA_USER_CM_CMD_WRITE_CM_EVENT:
		return view[abi.RdmaUcmWriteCmEvent](body).Id, true
	}
	return 0, false
}

// cmCommands are the names of the commands, as in enum RDMA_USER_CM_CMD_*.
var cmCommands = [...]string{
	abi.RDMA_USER_CM_CMD_CREATE_ID:          "CREATE_ID",
	abi.RDMA_USER_CM_CMD_DESTROY_ID:         "DESTROY_ID",
	abi.RDMA_USER_CM_CMD_BIND_IP:            "BIND_IP",
	abi.RDMA_USER_CM_CMD_RESOLVE_IP:         "RESOLVE_IP",
	abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE:      "RESOLVE_ROUTE",
	abi.RDMA_USER_CM_CMD_QUERY_ROUTE:        "QUERY_ROUTE",
	abi.RDMA_USER_CM_CMD_CONNECT:            "CONNECT",
	abi.RDMA_USER_CM_CMD_LISTEN:             "LISTEN",
	abi.RDMA_USER_CM_CMD_ACCEPT:             "ACCEPT",
	abi.RDMA_USER_CM_CMD_REJECT:             "REJECT",
	abi.RDMA_USER_CM_CMD_DISCONNECT:         "DISCONNECT",
	abi.RDMA_USER_CM_CMD_INIT_QP_ATTR:       "INIT_QP_ATTR",
	abi.RDMA_USER_CM_CMD_GET_EVENT:          "GET_EVENT",
	abi.RDMA_USER_CM_CMD_GET_OPTION:         "GET_OPTION",
	abi.RDMA_USER_CM_CMD_SET_OPTION:         "SET_OPTION",
	abi.RDMA_USER_CM_CMD_NOTIFY:             "NOTIFY",
	abi.RDMA_USER_CM_CMD_JOIN_IP_MCAST:      "JOIN_IP_MCAST",
	abi.RDMA_USER_CM_CMD_LEAVE_MCAST:        "LEAVE_MCAST",
	abi.RDMA_USER_CM_CMD_MIGRATE_ID:         "MIGRATE_ID",
	abi.RDMA_USER_CM_CMD_QUERY:              "QUERY",
	abi.RDMA_USER_CM_CMD_BIND:               "BIND",
	abi.RDMA_USER_CM_CMD_RESOLVE_ADDR:       "RESOLVE_ADDR",
	abi.RDMA_USER_CM_CMD_JOIN_MCAST:         "JOIN_MCAST",
	abi.RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE: "RESOLVE_IB_SERVICE",
	abi.RDMA_USER_CM_CMD_WRITE_CM_EVENT:     "WRITE_CM_EVENT",
}

// cmEvents are the names of the events, as in enum rdma_cm_event_type.
const cmEvents = "ADDR_RESOLVED ADDR_ERROR ROUTE_RESOLVED ROUTE_ERROR CONNECT_REQUEST CONNECT_RESPONSE CONNECT_ERROR " +
	"UNREACHABLE REJECTED ESTABLISHED DISCONNECTED DEVICE_REMOVAL MULTICAST_JOIN MULTICAST_ERROR ADDR_CHANGE TIMEWAIT_EXIT"

func eventName(event uint32) string {
	if names := strings.Fields(cmEvents); int64(event) < int64(len(names)) {
		return names[event]
	}
	return fmt.Sprintf("event %d", event)
}
