package netlinkrdma_test

import (
	"encoding/binary"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// commandsNotCalled are the kernel's commands that no call sends, with the reasons.
var commandsNotCalled = map[uint16]string{
	abi.RDMA_NLDEV_CMD_UNSPEC:  "no command",
	abi.RDMA_NLDEV_CMD_MONITOR: "the kernel sends it, see Subscribe",
}

// attributesNotUsed are the kernel's attributes that are neither decoded nor sent, with the
// reasons.
var attributesNotUsed = map[uint16]string{
	abi.RDMA_NLDEV_ATTR_UNSPEC:       "padding",
	abi.RDMA_NLDEV_ATTR_DRIVER_ENTRY: "no kernel sends it: what the driver says stands in DRIVER itself",
}

// nldevConstants returns the constants of the kernel's header with one of the prefixes.
func nldevConstants(t *testing.T, prefixes ...string) map[string]uint16 {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../internal/abi/zrdma_netlink_h.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]uint16)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(spec.Names[0].Name, p) }) {
			return true
		}
		v, err := strconv.ParseUint(spec.Values[0].(*ast.BasicLit).Value, 0, 16)
		if err != nil {
			t.Fatal(spec.Names[0], err)
		}
		found[spec.Names[0].Name] = uint16(v)
		return true
	})
	return found
}

// requests returns the requests that all calls send. The calls are those of the tables that
// the errno tests use.
func requests() []netlinkrdma.Request {
	k := statKernel()
	c := &netlinkrdma.Client{Kernel: k}
	for _, entry := range calls(c) {
		entry.call()
	}
	// The calls that read come first: the others remove counters and devices.
	for _, test := range slices.Concat(resCalls(c), statCalls(c, k), frmrCalls(c)) {
		test.call(7)
	}
	for _, test := range setCalls(c) {
		test.call(7)
	}
	c.SetOptionalCounters(7, 2, "cc_rx_ce_pkts")
	c.SetAutoCounters(7, 1, netlinkrdma.CountByType, &netlinkrdma.AutoOptions{Optional: true})
	return k.Requests
}

// TestEveryCall checks that every call of the client is in a table of the errno tests.
func TestEveryCall(t *testing.T) {
	k := statKernel()
	c := &netlinkrdma.Client{Kernel: k}
	met := make(map[string]bool)
	for name := range calls(c) {
		met[name] = true
	}
	for name := range setCalls(c) {
		met[name] = true
	}
	for _, test := range slices.Concat(resCalls(c), statCalls(c, k), frmrCalls(c)) {
		name, _, _ := strings.Cut(test.name, " ")
		met[name] = true
	}
	client := reflect.TypeFor[*netlinkrdma.Client]()
	for i := range client.NumMethod() {
		if name := client.Method(i).Name; !met[name] {
			t.Errorf("%s meets no errno", name)
		}
	}
}

// TestEveryCommand fails if the header of a newer kernel has a new command.
func TestEveryCommand(t *testing.T) {
	sent := make(map[uint16]bool)
	for _, req := range requests() {
		sent[req.Op] = true
	}
	constants := nldevConstants(t, "RDMA_NLDEV_CMD_")
	if len(constants) < 30 || int(constants["RDMA_NLDEV_CMD_FRMR_POOLS_SET"]) != abi.RDMA_NLDEV_NUM_OPS-1 {
		t.Error("not all commands of the header:", constants)
	}
	for name, op := range constants {
		if why := commandsNotCalled[op]; sent[op] == (why != "") {
			t.Errorf("%s (%d): sent %t, %q; add a call, or a reason to commandsNotCalled", name, op, sent[op], why)
		}
	}
}

// TestEveryAttribute fails if the header of a newer kernel has a new attribute.
func TestEveryAttribute(t *testing.T) {
	used := netlinkrdma.DecodedAttributes()
	for _, req := range requests() {
		for _, a := range req.Attrs {
			sentAttributes(a.Type, a.Value, used)
		}
	}
	constants := nldevConstants(t, "RDMA_NLDEV_ATTR_", "RDMA_NLDEV_SYS_ATTR_", "RDMA_NLDEV_NET_")
	delete(constants, "RDMA_NLDEV_ATTR_MAX")
	if len(constants) <= abi.RDMA_NLDEV_ATTR_MAX { // one has two names
		t.Errorf("%d attributes in the header, want %d", len(constants), abi.RDMA_NLDEV_ATTR_MAX+1)
	}
	for name, typ := range constants {
		if why := attributesNotUsed[typ]; used[typ] == (why != "") {
			t.Errorf("%s (%d): used %t, %q; decode or send it, with a golden, or add a reason to attributesNotUsed", name, typ, used[typ], why)
		}
	}
}

// sentAttributes records an attribute of a request and the attributes inside it.
func sentAttributes(typ uint16, value []byte, used map[uint16]bool) {
	used[typ&0x3fff] = true
	for typ&0x8000 != 0 && len(value) >= 4 {
		n := int(binary.NativeEndian.Uint16(value))
		sentAttributes(binary.NativeEndian.Uint16(value[2:]), value[4:n], used)
		value = value[min((n+3)&^3, len(value)):]
	}
}
