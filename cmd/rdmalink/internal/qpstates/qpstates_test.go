package qpstates

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/qpstate"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/verbs"
)

// machineWithSome returns a machine with a QP of the kernel and two of a process.
func machineWithSome() *host.Machine {
	kernel := &nltest.Kernel{Devices: []netlinkrdma.Device{{Index: 3, Name: "rxe0", Ports: 1}}}
	kernel.Objects = map[uint32]nltest.Objects{3: {QP: []netlinkrdma.QP{
		{Owner: netlinkrdma.Owner{Kernel: "ib_core"}, Port: 1, LQPN: 1, Type: verbs.QPTypeGSI, State: verbs.QPStateRTS},
		{Owner: netlinkrdma.Owner{TID: 70}, LQPN: 17, Type: verbs.QPTypeRC, State: verbs.QPStateRTR},
		{LQPN: 18, Type: verbs.QPTypeUD, State: verbs.QPStateRTS},
	}}}
	return &host.Machine{RDMA: &netlinkrdma.Client{Kernel: kernel}}
}

type ran struct{ out, err string }

func show(t *testing.T, m *host.Machine, name string, o cli.Output) ran {
	t.Helper()
	var out, notes bytes.Buffer
	o.Stdout, o.Stderr = &out, &notes
	if err := Show(m, &o, name, ""); err != nil {
		t.Fatal(err)
	}
	return ran{out.String(), notes.String()}
}

func TestText(t *testing.T) {
	all := show(t, machineWithSome(), "", cli.Output{})
	for _, want := range []string{
		"  [RESET] ---> [INIT] ---> [RTR] ---> [RTS] <--> [SQD]\n", "[SQE]\n",
		"\n  RC  INIT to RTR   AV|PathMTU|RQPSN|RNRTimer|MaxDestRDAtomic|DestQPN [Access|PKeyIndex|AltPath]\n",
		"\n  UD  RESET to INIT PKeyIndex|Port|QKey\n", "\n  SQD    used      kept      accepted  ",
		"\n  RTS    rxe0 lqpn 1 GSI comm [ib_core]\n  RTR    rxe0 lqpn 17 RC pid 70\n  RTS    rxe0 lqpn 18 UD\n",
	} {
		if !strings.Contains(all.out, want) || all.err != "" {
			t.Errorf("no %q in\n%s%s", want, all.out, all.err)
		}
	}
	rc := show(t, machineWithSome(), "rc", cli.Output{})
	if strings.Contains(rc.out, "SQE") || strings.Contains(rc.out, "UD") || !strings.HasSuffix(rc.out, "host:\n  RTR    rxe0 lqpn 17 RC pid 70\n") {
		t.Error(rc.out)
	}
	if uc := show(t, machineWithSome(), "uc", cli.Output{}); !strings.HasSuffix(uc.out, "host:\n  none\n") {
		t.Error(uc.out)
	}
}

// TestWithoutRDMA checks that the state machine is explained on a host without RDMA too.
func TestWithoutRDMA(t *testing.T) {
	m := machineWithSome()
	m.RDMA.Kernel.(*nltest.Kernel).Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_GET: syscall.EPROTONOSUPPORT}
	got := show(t, m, "", cli.Output{})
	if !strings.Contains(got.out, "[RESET]") || strings.Contains(got.out, "this host") || !strings.Contains(got.err, "are not known: ") {
		t.Errorf("%+v", got)
	}
	if got := show(t, m, "", cli.Output{JSON: true}); strings.Contains(got.out, `"qps"`) {
		t.Error(got.out)
	}
}

func TestJSON(t *testing.T) {
	var got jsonPicture
	if err := json.Unmarshal([]byte(show(t, machineWithSome(), "ud", cli.Output{JSON: true}).out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.States) != 7 || len(got.Transitions) != len(qpstate.Of(verbs.QPTypeUD)) || len(got.Here) != 1 || got.Here[0].Number != 18 {
		t.Errorf("%+v", got)
	}
	first := got.Transitions[0]
	if first.From != "RESET" || first.To != "INIT" || strings.Join(first.Required, " ") != "PKeyIndex Port QKey" || first.Optional == nil {
		t.Errorf("%+v", first)
	}
}

// TestDrawingIsWhole checks that each transition between two states is an arrow of the text and
// of the SVG.
func TestDrawingIsWhole(t *testing.T) {
	for _, typ := range qpstate.Types() {
		p := picture{types: []verbs.QPType{typ}}
		text, svg := machineOf(p.types).draw(), p.svg()
		arrows := 0
		for _, tr := range qpstate.Of(typ) {
			if tr.From == tr.To {
				continue
			}
			arrows++
			from, to := "["+tr.From.String()+"]", "["+tr.To.String()+"]"
			beside := strings.Contains(text, from+" ---> "+to) || strings.Contains(text, from+" <--> "+to) || strings.Contains(text, to+" <--> "+from)
			if !beside && (tr.From != verbs.QPStateSQE || !strings.Contains(text, "^\n")) {
				t.Errorf("%v: %v to %v is not drawn", typ, tr.From, tr.To)
			}
		}
		if typ == verbs.QPTypeUC || typ == verbs.QPTypeUD || typ == verbs.QPTypeSRD {
			arrows++ // to SQE
		}
		if n := strings.Count(svg, "marker-end"); n != arrows {
			t.Errorf("%v: %d arrows, want %d", typ, n, arrows)
		}
	}
}

func TestSVG(t *testing.T) {
	file := filepath.Join(t.TempDir(), "qp.svg")
	o := cli.Output{Stdout: io.Discard, Stderr: io.Discard}
	if err := Show(machineWithSome(), &o, "", file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(bytes.NewReader(text))
	for err == nil {
		_, err = d.Token()
	}
	if err != io.EOF || !bytes.Contains(text, []byte("RTS: 2 QPs here")) || !bytes.Contains(text, []byte("RTR: 1 QP here")) || !bytes.Contains(text, []byte("RC: AckTimeout, RetryCnt")) {
		t.Errorf("%v\n%s", err, text)
	}
	if err := Show(machineWithSome(), &o, "", filepath.Join(file, "no")); !errors.Is(err, syscall.ENOTDIR) {
		t.Error(err)
	}
}
