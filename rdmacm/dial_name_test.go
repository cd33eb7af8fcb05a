package rdmacm

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
)

// Options of the caller's are set before the address is resolved.
func TestDialOptions(t *testing.T) {
	k := newFake()
	useFake(t, k)
	k.fail(abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, 1)
	var values [][]byte
	k.onDone = func(cmd uint32, b []byte) {
		if cmd == abi.RDMA_USER_CM_CMD_SET_OPTION {
			values = append(values, append([]byte{byte(view[abi.RdmaUcmSetOption](b).Optname)}, k.option...))
		}
	}
	if _, err := DialAddrPort(t.Context(), addr4, &Config{TOS: 0x20, AckTimeout: 18}); err == nil {
		t.Error("resolved")
	}
	if !slices.EqualFunc(values, [][]byte{{abi.RDMA_OPTION_ID_TOS, 0x20}, {abi.RDMA_OPTION_ID_ACK_TIMEOUT, 18}}, slices.Equal) {
		t.Errorf("% x", values)
	}
	k.fail(abi.RDMA_USER_CM_CMD_SET_OPTION, 22)
	for _, cfg := range []*Config{{TOS: 1}, {AckTimeout: 1}} {
		if _, err := DialAddrPort(t.Context(), addr4, cfg); err == nil || k.calls[len(k.calls)-2] != abi.RDMA_USER_CM_CMD_SET_OPTION {
			t.Errorf("went on after a refusal: %v", err)
		}
	}
}

// A name, or a service, that can't be looked up is an error, and one that can is addresses.
func TestLookup(t *testing.T) {
	broken := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }}
	got, err := lookup(t.Context(), broken, "127.0.0.1:http")
	if want := netip.MustParseAddrPort("127.0.0.1:80"); err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("%v, %v", got, err)
	}
	for _, address := range []string{"127.0.0.1:nosuchservice", "nosuchhost.invalid:1", "127.0.0.1"} {
		if got, err := lookup(t.Context(), broken, address); err == nil {
			t.Errorf("%s: %v", address, got)
		}
	}
}
