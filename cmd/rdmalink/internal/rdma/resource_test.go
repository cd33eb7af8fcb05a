package rdma

import (
	"context"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli/clitest"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
)

const (
	qp2  = "link mlx5_0/2 lqpn 1 type GSI state RTS sq-psn 0 comm [ib_core] \n"
	qp1  = "link mlx5_0/1 lqpn 1 type GSI state RTS sq-psn 0 comm [ib_core] \n"
	qp17 = "link mlx5_0/1 lqpn 17 rqpn 18 type RC state RTS rq-psn 7 sq-psn 5 path-mig-state REARM pdn 0 pid 7 comm a reader \n"
	qp18 = "link mlx5_0/- lqpn 18 type DRIVER subtype REG_UMR state RESET sq-psn 0 pdn 4 pid 8 \n"
	qp19 = "link mlx5_0/- lqpn 19 type UD state QPState(27) sq-psn 0 \n"

	cm3 = "link mlx5_0/1 cm-idn 3 lqpn 17 qp-type RC state CONNECT ps TCP pid 7 comm a reader src-addr 10.1.1.1:7174 dst-addr 10.1.1.2:40000 \n"
	cm4 = "link mlx5_0/- cm-idn 4 state LISTEN ps UDP comm [ib_core] src-addr fd01::1:7 \n"
	cm5 = "link mlx5_0/- cm-idn 5 state LISTEN ps IB pid 7 comm a reader src-addr Family(17) \n"

	cq0 = "dev mlx5_0 cqn 0 cqe 255 users 2 poll-ctx UNBOUND_WORKQUEUE adaptive-moderation on comm [ib_core] \n"
	cq1 = "dev mlx5_0 cqn 1 cqe 127 users 1099511627776 adaptive-moderation off ctxn 0 pid 7 comm a reader \n"

	mr1 = "dev mlx5_0 mrn 1 rkey 0x1a2b lkey 0x0 iova 0x800000000000 mrlen 1099511627776 pdn 2 pid 7 comm a reader \n"
	mr2 = "dev mlx5_0 mrn 2 mrlen 4096 comm [ib_core] \n"

	pd0 = "dev mlx5_0 pdn 0 local_dma_lkey 0x1d6 users 1 unsafe_global_rkey 0x9 comm [ib_core] \n"
	pd2 = "dev mlx5_0 pdn 2 users 3 ctxn 1 pid 7 comm a reader \n"

	ctx0 = "dev mlx5_0 ctxn 0 pid 7 comm a reader \n"
	ctx1 = "dev mlx5_0 ctxn 1 \n"

	srq4 = "dev mlx5_0 srqn 4 type XRC lqpn 17,19-30 pdn 2 cqn 1 pid 7 comm a reader \n"
	srq5 = "dev mlx5_0 srqn 5 type BASIC comm [ib_core] \n"

	counts = "0: siw0: pd 2 cm_id 8589934592 \n"
	count7 = "7: mlx5_0: pd 2 cm_id 8589934592 \n"
)

// TestResourceTwoDevices checks that each object is printed once, grouped by device.
func TestResourceTwoDevices(t *testing.T) {
	tool, kernel := clitest.Resources()
	kernel.Objects[0] = nltest.Objects{QP: []netlinkrdma.QP{{Port: 1, LQPN: 3, Type: 2}, {LQPN: 4, Type: 2}}}
	const siw = "link siw0/- lqpn 4 type RC state RESET sq-psn 0 \nlink siw0/1 lqpn 3 type RC state RESET sq-psn 0 \n"
	want := clitest.Result{Out: siw + qp18 + qp19 + qp1 + qp17 + qp2}
	if diff := cmp.Diff(want, runLine(tool, "res show qp", &hosttest.Netdevs{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// countedFS counts the files that are opened.
type countedFS struct {
	fs.FS
	opened *int
}

func (c countedFS) Open(name string) (fs.File, error) { *c.opened++; return c.FS.Open(name) }

// TestResourceOwnersOnce checks that the name of an owner is read once, because
// thousands of objects may belong to one process.
func TestResourceOwnersOnce(t *testing.T) {
	tool, _ := clitest.Resources()
	opened := 0
	tool.Proc = host.Tree{FS: countedFS{tool.Proc, &opened}}
	if got := runLine(tool, "res show cm_id", &hosttest.Netdevs{}); got.Out != cm4+cm5+cm3 || opened != 1 {
		t.Errorf("%d files were read: %+v", opened, got)
	}
}

// TestResourceOfProcess checks that the filter pid accepts a process too, although
// the kernel reports threads.
func TestResourceOfProcess(t *testing.T) {
	for line, want := range map[string]string{
		"res show qp pid 5":   qp17,
		"res show qp pid 7":   qp17,
		"res show qp pid 5,8": qp18 + qp17,
		"res show qp pid 6":   "",
		"res show qp pid 0":   "",
		"res show pd pid 5":   pd2,
	} {
		tool, _ := clitest.Resources()
		tool.Proc.FS.(fstest.MapFS)["7/status"] = &fstest.MapFile{Data: []byte("Name:\ta reader\nTgid:\t5\n")}
		if got := runLine(tool, line, &hosttest.Netdevs{}); got.Out != want || got.Code != 0 {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// TestResourceText follows iproute2's source where no soft driver sends the
// attribute; the rest is compared with rdma itself in the kernel tests.
func TestResourceText(t *testing.T) {
	for line, want := range map[string]string{
		"resource":               counts + count7,
		"res":                    counts + count7,
		"r":                      counts + count7,
		"r show":                 counts + count7,
		"r l":                    counts + count7,
		"resource show mlx5_0":   count7,
		"res show qp":            qp18 + qp19 + qp1 + qp17 + qp2,
		"r s q":                  qp18 + qp19 + qp1 + qp17 + qp2,
		"res show cm_id":         cm4 + cm5 + cm3,
		"res show c":             cm4 + cm5 + cm3,
		"res list cq":            cq0 + cq1,
		"-d res show mr":         mr1 + mr2,
		"-p res show pd":         pd0 + pd2,
		"res show ctx":           ctx0 + ctx1,
		"res show s":             srq4 + srq5,
		"-r res show pd":         pd0 + pd2,
		"res show qp link siw0":  "",
		"res show cq dev mlx5_0": cq0 + cq1,

		"res show qp link mlx5_0":                   qp18 + qp19 + qp1 + qp17 + qp2,
		"res show qp link mlx5_0/":                  qp18 + qp19 + qp1 + qp17 + qp2,
		"res show qp link mlx5_0/1":                 qp1 + qp17,
		"res show qp link mlx5_0/-":                 qp18 + qp19,
		"res show cm_id link mlx5_0/1":              cm3,
		"res show qp lqpn 17":                       qp17,
		"res show qp link mlx5_0/1 lqpn 17":         qp17,
		"res show qp link mlx5_0/1 lqpn 99":         "",
		"res show qp link mlx5_0/1 lqpn 1":          qp1,
		"res show qp lq 1,18-30":                    qp18 + qp19 + qp1 + qp2,
		"res show qp lqpn ,17,":                     qp17,
		"res show qp lqpn 0x11":                     qp17,
		"res show qp rqpn 0-99":                     qp17,
		"res show qp type driver,rc":                qp18 + qp17,
		"res show qp state RTS pid 7":               qp17,
		"res show qp path-mig-state migrated,rearm": qp17,
		"res show qp rq-psn 7 sq-psn 5 pdn 0":       qp17,
		"res show cm_id src-addr 10.1.1.1":          cm3,
		"res show cm_id src-port 7-10":              cm4,
		"res show cm_id dst-addr 10.1.1.2 dst-port 40000 cm-idn 3 ps tcp qp-type rc state connect lqpn 17": cm3,
		"res show cm_id dst-port 1":                     "",
		"res show cq users 1099511627776":               cq1,
		"res show cq poll-ctx unbound_workqueue,direct": cq0,
		"res show cq cqn 1":                             cq1,
		"res show cq cqn 2":                             "",
		"res show cq ctxn 0":                            cq1,
		"res show mr mrn 1-2 rkey 6699":                 mr1,
		"res show mr lkey 0 pdn 2":                      mr1,
		"res show mr mrlen 4096":                        mr2,
		"res show pd pdn 0":                             pd0,
		"res show pd users 3 ctxn 1 pid 7":              pd2,
		"res show ctx ctxn 1":                           ctx1,
		"res show ctx pid 7,8":                          ctx0,
		"res show srq srqn 5":                           srq5,
		"res show srq lqpn 20-21,30":                    strings.Replace(srq4, "17,19-30", "20-21,30", 1),
		"res show srq lqpn 18":                          "",
		"res show srq type xrc cqn 1 pdn 2 dev mlx5_0":  srq4,
	} {
		tool, _ := clitest.Resources()
		if diff := cmp.Diff(clitest.Result{Out: want}, runLine(tool, line, &hosttest.Netdevs{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

func TestResourceJSON(t *testing.T) {
	const dev = `"ifindex":7,"ifname":"mlx5_0",`
	for line, want := range map[string]string{
		"-j res":      `[{"ifindex":0,"ifname":"siw0","pd":2,"cm_id":8589934592},{"ifindex":7,"ifname":"mlx5_0","pd":2,"cm_id":8589934592}]`,
		"-j res show": `[{"ifindex":0,"ifname":"siw0","pd":2,"cm_id":8589934592},{"ifindex":7,"ifname":"mlx5_0","pd":2,"cm_id":8589934592}]`,
		"-j res show qp": `[{` + dev + `"lqpn":18,"type":"DRIVER","subtype":"REG_UMR","state":"RESET","sq-psn":0,"pdn":4,"pid":8},` +
			`{` + dev + `"lqpn":19,"type":"UD","state":"QPState(27)","sq-psn":0},` +
			`{` + dev + `"port":1,"lqpn":1,"type":"GSI","state":"RTS","sq-psn":0,"comm":"ib_core"},` +
			`{` + dev + `"port":1,"lqpn":17,"rqpn":18,"type":"RC","state":"RTS","rq-psn":7,"sq-psn":5,"path-mig-state":"REARM","pdn":0,"pid":7,"comm":"a reader"},` +
			`{` + dev + `"port":2,"lqpn":1,"type":"GSI","state":"RTS","sq-psn":0,"comm":"ib_core"}]`,
		"res show qp -j lqpn 17 -d": `[{` + dev + `"port":1,"lqpn":17,"rqpn":18,"type":"RC","state":"RTS","rq-psn":7,"sq-psn":5,"path-mig-state":"REARM","pdn":0,"pid":7,"comm":"a reader"}]`,
		"-j res show cm_id lqpn 17": `[{` + dev + `"port":1,"cm-idn":3,"lqpn":17,"qp-type":"RC","state":"CONNECT","ps":"TCP","pid":7,"comm":"a reader","src-addr":"10.1.1.1:7174","dst-addr":"10.1.1.2:40000"}]`,
		"-j res show cq": `[{` + dev + `"cqn":0,"cqe":255,"users":2,"poll-ctx":"UNBOUND_WORKQUEUE","adaptive-moderation":true,"comm":"ib_core"},` +
			`{` + dev + `"cqn":1,"cqe":127,"users":1099511627776,"adaptive-moderation":false,"ctxn":0,"pid":7,"comm":"a reader"}]`,
		"-j res show mr mrn 1":     `[{` + dev + `"mrn":1,"rkey":"1a2b","lkey":"0","iova":"800000000000","mrlen":1099511627776,"pdn":2,"pid":7,"comm":"a reader"}]`,
		"-j res show pd pdn 0":     `[{` + dev + `"pdn":0,"local_dma_lkey":"1d6","users":1,"unsafe_global_rkey":"9","comm":"ib_core"}]`,
		"-j res show ctx":          `[{` + dev + `"ctxn":0,"pid":7,"comm":"a reader"},{` + dev + `"ctxn":1}]`,
		"-j res show srq srqn 4":   `[{` + dev + `"srqn":4,"type":"XRC","lqpn":["17","19-30"],"pdn":2,"cqn":1,"pid":7,"comm":"a reader"}]`,
		"-j res show cq cqn 77":    `[]`,
		"-jp res show srq srqn 77": `[ ]`,
		"-jp res show srq": `[ {
        "ifindex": 7,
        "ifname": "mlx5_0",
        "srqn": 4,
        "type": "XRC",
        "lqpn": [ "17","19-30" ],
        "pdn": 2,
        "cqn": 1,
        "pid": 7,
        "comm": "a reader"
    },{
        "ifindex": 7,
        "ifname": "mlx5_0",
        "srqn": 5,
        "type": "BASIC",
        "comm": "ib_core"
    } ]`,
	} {
		tool, _ := clitest.Resources()
		if diff := cmp.Diff(clitest.Result{Out: want + "\n"}, runLine(tool, line, &hosttest.Netdevs{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

// TestResourceDriver checks that -dd requests and prints the driver's attributes.
func TestResourceDriver(t *testing.T) {
	line := strings.TrimSuffix(qp17, "\n")
	for flags, want := range map[string]string{
		"-d": qp17,
		"-dd": line + "\n    drv_state u\"p drv_delta -5 drv_mask 0xfffffffe drv_address 0xffff800012345678 drv_offset -9223372036854775808 " +
			"\n    drv_last 1 \n",
		"-j -d -d": `[{"ifindex":7,"ifname":"mlx5_0","port":1,"lqpn":17,"rqpn":18,"type":"RC","state":"RTS","rq-psn":7,"sq-psn":5,"path-mig-state":"REARM","pdn":0,"pid":7,"comm":"a reader",` +
			`"drv_state":"u\"p","drv_delta":-5,"drv_mask":4294967294,"drv_address":18446603336526616184,"drv_offset":-9223372036854775808,"drv_last":1}]` + "\n",
	} {
		tool, kernel := clitest.Resources()
		if diff := cmp.Diff(clitest.Result{Out: want}, runLine(tool, flags+" res show qp lqpn 17", &hosttest.Netdevs{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", flags, diff)
		}
		asked := false
		for _, a := range kernel.Requests[len(kernel.Requests)-1].Attrs {
			asked = asked || a.Type == abi.RDMA_NLDEV_ATTR_DRIVER_DETAILS
		}
		if asked != (flags != "-d") {
			t.Errorf("%s: details of the driver asked for: %v", flags, asked)
		}
	}
}

func TestResourceRaw(t *testing.T) {
	for line, want := range map[string]clitest.Result{
		"-r res show qp link mlx5_0":           {Out: strings.Repeat("link mlx5_0/- data 0001ff \n", 5)},
		"res show cq dev mlx5_0 -r":            {Out: strings.Repeat("dev mlx5_0 data 0001ff \n", 2)},
		"-j -r res show mr dev mlx5_0 mrn 1":   {Out: `[{"ifindex":7,"ifname":"mlx5_0","data":[0,1,255]}]` + "\n"},
		"-r res show qp link mlx5_0/1 lqpn 17": {Out: "link mlx5_0/- data 0001ff \n"},
		"-rjp res show qp link mlx5_0/2":       {Out: "[ {\n        \"ifindex\": 7,\n        \"ifname\": \"mlx5_0\",\n        \"data\": [ 0,1,255 ]\n    } ]\n"},
		"-r res show srq":                      {Out: "dev mlx5_0 data 0001ff \ndev mlx5_0 data 0001ff \n"}, // siw0 has none
		"-r res show srq dev siw0":             {Code: 1, Err: "rdmalink: list the raw SRQs of siw0: the driver does not report raw data of its objects: invalid argument\n"},
	} {
		tool, kernel := clitest.Resources()
		o := kernel.Objects[7]
		o.Raw = []byte{0, 1, 255}
		kernel.Objects[7] = o
		if diff := cmp.Diff(want, runLine(tool, line, &hosttest.Netdevs{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

// TestResourceNoRaw checks the error if no device has raw data.
func TestResourceNoRaw(t *testing.T) {
	tool, _ := clitest.Resources()
	want := clitest.Result{Code: 1, Out: "", Err: "rdmalink: list the raw SRQs of siw0: the driver does not report raw data of its objects: invalid argument\n"}
	if diff := cmp.Diff(want, runLine(tool, "-j -r res show srq", &hosttest.Netdevs{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestResourceErrors(t *testing.T) {
	const usage = "\nUsage: rdmalink resource show [DEV | KIND [link DEV[/PORT] | dev DEV] [FILTER VALUE]...] (more: rdmalink resource show -h)\n"
	for line, want := range map[string]clitest.Result{
		"res show frob":                {Code: 2, Out: "", Err: "\"frob\": expected one of qp, cm_id, cq, mr, pd, ctx, srq, frmr_pools, the name of a device" + usage},
		"res show frob 1":              {Code: 2, Out: "", Err: "\"frob\": expected one of qp, cm_id, cq, mr, pd, ctx, srq, frmr_pools, the name of a device" + usage},
		"res show qp mlx5_0":           {Code: 2, Out: "", Err: "\"mlx5_0\": expected one of link, lqpn, rqpn, pid, sq-psn, rq-psn, type, path-mig-state, state, pdn" + usage},
		"res show qp p 1":              {Code: 2, Out: "", Err: "\"p\": expected one of pid, path-mig-state, pdn" + usage},
		"res show qp pid":              {Code: 2, Out: "", Err: "expected a value for pid" + usage},
		"res show qp pid x":            {Code: 2, Out: "", Err: "pid \"x\": expected numbers and ranges of them, the lower end first: 1,2,5-9" + usage},
		"res show qp pid 1-":           {Code: 2, Out: "", Err: "pid \"1-\": expected numbers and ranges of them, the lower end first: 1,2,5-9" + usage},
		"res show qp pid 9-5":          {Code: 2, Out: "", Err: "pid \"9-5\": expected numbers and ranges of them, the lower end first: 1,2,5-9" + usage},
		"res show qp pid 1 pid 2":      {Code: 2, Out: "", Err: "pid is given twice; one pid takes several values: 1,2,5-9" + usage},
		"res show qp state FOO":        {Code: 2, Out: "", Err: "\"FOO\": expected one of RESET, INIT, RTR, RTS, SQD, SQE, ERR" + usage},
		"res show qp state RTS,EER":    {Code: 2, Out: "", Err: "\"EER\": expected one of RESET, INIT, RTR, RTS, SQD, SQE, ERR; did you mean ERR?" + usage},
		"res show cm_id ps UPD":        {Code: 2, Out: "", Err: "\"UPD\": expected one of IPoIB, IB, TCP, UDP; did you mean UDP?" + usage},
		"res show qp link mlx5_0/x":    {Code: 2, Out: "", Err: "\"mlx5_0/x\": the port must be a number from 1" + usage},
		"res show qp link mlx5_0/0":    {Code: 2, Out: "", Err: "\"mlx5_0/0\": the port must be a number from 1" + usage},
		"res show qp link mlx5_0/3":    {Code: 1, Out: "", Err: "mlx5_0 has no port 3, it has 2\n"},
		"-j res show qp link mlx5_0/3": {Code: 1, Out: "", Err: "mlx5_0 has no port 3, it has 2\n"},
		"res show qp link mlx6":        {Code: 1, Out: "", Err: "find RDMA device \"mlx6\": no such RDMA device: there are siw0, mlx5_0\n"},
		"res show cq dev mlx5_0/1":     {Code: 1, Out: "", Err: "find RDMA device \"mlx5_0/1\": no such RDMA device: there are siw0, mlx5_0\n"},
		"res frob":                     {Code: 2, Out: "", Err: "\"frob\": expected one of show, set, help\nUsage: rdmalink resource [OPTIONS] COMMAND (more: rdmalink resource -h)\n"},
	} {
		tool, _ := clitest.Resources()
		want.Err = "rdmalink: " + want.Err
		if diff := cmp.Diff(want, runLine(tool, line, &hosttest.Netdevs{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

// TestResourceFails checks that output before an error stays complete, also as JSON.
func TestResourceFails(t *testing.T) {
	tool, kernel := clitest.Resources()
	kernel.Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_RES_CQ_GET: syscall.EPERM}
	got := runLine(tool, "-j res show cq", &hosttest.Netdevs{})
	if got.Code != 1 || got.Out != "" || !strings.Contains(got.Err, "list the CQs of siw0: needs CAP_NET_ADMIN") {
		t.Errorf("%+v", got)
	}
	tool.Stdout, tool.Stderr = brokenPipe{}, &strings.Builder{}
	if code := tool.Run(context.Background(), root(), strings.Fields("res show qp")); code != cli.ExitFailed {
		t.Errorf("exit code %d when nothing can be printed", code)
	}
}

func TestResourceWhileDeviceGoes(t *testing.T) {
	tool, kernel := clitest.Resources()
	tool.RDMA.Kernel = vanishing{kernel}
	if got := runLine(tool, "res", &hosttest.Netdevs{}); got.Code != 0 || got.Out != count7 {
		t.Errorf("%+v", got)
	}
}

// TestResourceDeviceNamedAsKind checks that a single word that names a device means
// the device.
func TestResourceDeviceNamedAsKind(t *testing.T) {
	tool, kernel := clitest.Resources()
	kernel.Devices[0].Name = "qp"
	if got := runLine(tool, "res show qp", &hosttest.Netdevs{}); got.Out != strings.Replace(counts, "siw0", "qp", 1) {
		t.Errorf("%+v", got)
	}
}

func TestResourceHelp(t *testing.T) {
	tool, _ := clitest.Resources()
	got := runLine(tool, "res help show", &hosttest.Netdevs{})
	if got.Code != 0 || !strings.HasPrefix(got.Out, "Usage: rdmalink resource show [DEV") || !strings.Contains(got.Out, "  srq        dev pid srqn type") {
		t.Errorf("%+v", got)
	}
}

// plainMachine is clitest.Resources without objects that rdma, or rdma 6.1, is known
// to print differently (docs/rdma-differences.md).
func plainMachine() (*cli.Tool, *nltest.Kernel) {
	tool, kernel := clitest.Resources()
	o := kernel.Objects[7]
	o.QP[2].Driver, o.QP[3].Subtype = nil, ""
	o.QP = o.QP[:4]
	o.CMID = o.CMID[:2]
	o.MR[0].IOVA = netlinkrdma.Opt[uint64]{}
	kernel.Objects[7] = o
	return tool, kernel
}

// anyComm is the name of an owner. rdma asks for that of process 7 of this
// machine, and 6.1 prints it from a buffer that is gone.
var anyComm = regexp.MustCompile(`comm (a reader|\S+) |,\s*"comm": ?"[^"]*"`)

// rdmaPollContexts replaces rdma's words, which follow the order of older kernels,
// with the right ones.
var rdmaPollContexts = strings.NewReplacer("UNBOUND_WORKQUEUE", "DIRECT", "WORKQUEUE", "UNBOUND_WORKQUEUE", "SOFTIRQ", "WORKQUEUE", "DIRECT", "SOFTIRQ")

// TestResourceAsIproute2 compares the output with rdma's, also for objects that no
// soft driver has.
func TestResourceAsIproute2(t *testing.T) {
	r := newIproute2(t)
	var lines []string
	for _, kind := range []string{"", "mlx5_0", "qp", "cm_id", "cq", "mr", "pd", "ctx", "srq"} {
		for _, flags := range []string{"", "-d", "-j", "-jp"} {
			lines = append(lines, flags+" res show "+kind)
		}
	}
	lines = append(lines, "res show qp link mlx5_0/1", "res show qp link mlx5_0/-", "res show qp state rts,reset type rc,driver", "res show qp rqpn 18",
		"res show cm_id ps udp", "res show cm_id lqpn 17 qp-type rc", "res show cq users 2", "res show mr mrlen 4096-5000", "res show mr mrn 1",
		"res show pd pdn 2", "res show srq srqn 4", "res show srq lqpn 20-21,30", "res show srq type xrc", "res show ctx ctxn 1")
	for _, line := range lines {
		tool, kernel := plainMachine()
		want, failed := r.run(t, kernel, line)
		got := runLine(tool, line, &hosttest.Netdevs{})
		want, got.Out = rdmaPollContexts.Replace(anyComm.ReplaceAllString(want, "")), anyComm.ReplaceAllString(got.Out, "")
		if diff := cmp.Diff(want, got.Out); diff != "" || failed || got.Code != 0 || strings.TrimSpace(want) == "" {
			t.Errorf("%s, failed %t, exit code %d (-iproute2 +rdmalink):\n%s", line, failed, got.Code, diff)
		}
	}
}

// TestResourceDriverAsIproute2 compares the numbers of driver attributes, which are
// right only in rdma's text.
func TestResourceDriverAsIproute2(t *testing.T) {
	r := newIproute2(t)
	for _, line := range []string{"-dd res show qp lqpn 17", "-dd res show qp link mlx5_0/1"} {
		tool, kernel := clitest.Resources()
		want, failed := r.run(t, kernel, line)
		got := runLine(tool, line, &hosttest.Netdevs{})
		want, got.Out = anyComm.ReplaceAllString(want, ""), anyComm.ReplaceAllString(got.Out, "")
		if diff := cmp.Diff(want, got.Out); diff != "" || failed || !strings.Contains(want, "drv_offset -9223372036854775808") {
			t.Errorf("%s, failed %t (-iproute2 +rdmalink):\n%s", line, failed, diff)
		}
	}
}

// TestResourceDriverLinesAsIproute2 compares the places where rdma breaks long lines
// of driver attributes.
func TestResourceDriverLinesAsIproute2(t *testing.T) {
	r := newIproute2(t)
	for length := 30; length <= 36; length++ { // two of 33 are 80 bytes
		tool, kernel := clitest.Resources()
		one := netlinkrdma.DriverAttr{Name: strings.Repeat("x", length), Kind: netlinkrdma.DriverU32, Number: 1}
		kernel.Objects[7].QP[2].Driver = slices.Repeat([]netlinkrdma.DriverAttr{one}, 5)
		want, failed := r.run(t, kernel, "-dd res show qp lqpn 17")
		got := runLine(tool, "-dd res show qp lqpn 17", &hosttest.Netdevs{})
		want, got.Out = anyComm.ReplaceAllString(want, ""), anyComm.ReplaceAllString(got.Out, "")
		if diff := cmp.Diff(want, got.Out); diff != "" || failed || strings.Count(want, "xx 1") != 5 {
			t.Errorf("%d letters, failed %t (-iproute2 +rdmalink):\n%s", length, failed, diff)
		}
	}
}
