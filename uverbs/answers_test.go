package uverbs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/regions"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// answersAlone is set in the process that TestAnswers starts.
const answersAlone = "GOVERBS_TEST_ANSWERS"

// TestAnswers spoils the answer of each call of each verb: it is missing, too short, or too long for
// its room. The caller gets an error, unless the call is in tolerated. Nothing panics or hangs. If the
// kernel destroys all objects when uverbs asks for it, nothing is left behind.
//
// An object whose handle was spoiled can't be destroyed, so its device and its memory stay until the
// process ends. They would disturb the counts of other tests, so the test runs in a process of its own.
func TestAnswers(t *testing.T) {
	if os.Getenv(answersAlone) != "" {
		spoilAll(t)
		return
	}
	if os.Getenv("GOVERBS_QEMU_USER") != "" {
		t.Skip("qemu-user runs this process alone: the kernel can't execute arm64 programs")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, self, "-test.run=^TestAnswers$", "-test.v")
	cmd.Env = append(os.Environ(), answersAlone+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestAnswers") {
		t.Errorf("%v\n%s", err, out)
	}
}

// tolerated has the calls of which no spoiled answer is an error, because uverbs passes their values
// on to the caller and depends on none of them. Values that the kernel did not answer are 0.
var tolerated = map[string]bool{
	"QUERY_GID_ENTRY": true, "QUERY_PORT_SPEED": true, "QUERY_QP": true, "QUERY_SRQ": true, "PD_QUERY": true,
	// The list ends where its room ends.
	"INFO_HANDLES": true,
	// The handle is no part of the answer's memory, and the rest are keys and limits.
	"DM_MR_REG": true, "REG_MR_FOR": true, "REREG_MR": true, "WQ_CREATE": true,
	// Numbers of events, which uverbs does not need: it waits for nobody.
	"CQ_DESTROY": true, "QP_DESTROY": true, "SRQ_DESTROY": true, "WQ_DESTROY": true,
}

func spoilAll(t *testing.T) {
	noticed := make(map[string]bool) // by the name of the spoiled call
	for _, info := range []uverbs.DeviceInfo{siw0, rxe0, hollow0, {Name: "mlx5_0", Driver: verbs.DriverMLX5, ABI: 1, Ports: 1}} {
		for _, v := range uverbs.Verbs() {
			whole := newAnswers(info)
			want, err := whole.probe(info, v)
			if err != nil {
				t.Fatalf("%s, %s: %v", info.Name, v, err)
			}
			for _, s := range spoilers {
				for nth := range whole.seen {
					a := newAnswers(info)
					a.spoil, a.nth = s.spoil, nth
					got, err := a.probe(info, v)
					if err != nil {
						t.Errorf("%s, %s, answer %d: %s %s: %v", info.Name, v, nth, a.spoiled, s.name, err)
					}
					if e := (*verbs.Error)(nil); got != nil && (!errors.As(got, &e) || e.Device != info.Name) {
						t.Errorf("%s, %s, answer %d: %s %s: the error does not name the device: %v", info.Name, v, nth, a.spoiled, s.name, got)
					}
					noticed[a.spoiled] = noticed[a.spoiled] || want == nil && got != nil
				}
			}
		}
	}
	for call, yes := range noticed {
		if yes == tolerated[call] {
			t.Errorf("%s: a spoiled answer was noticed: %v", call, yes)
		}
	}
	for call := range tolerated {
		if _, ok := noticed[call]; !ok {
			t.Errorf("%s: no verb makes this call, or it has no answer", call)
		}
	}
	if len(noticed) < fewestAnswers {
		t.Errorf("the answers of %d calls were spoiled, want %d at least", len(noticed), fewestAnswers)
	}
}

// fewestAnswers is the number of calls with answers that the probes make. Two calls of uverbs have
// answers too but no probe: COUNTERS_READ, whose values go to the caller as they are, and EX_MODIFY_QP,
// whose answer uverbs does not read.
const fewestAnswers = 36

// spoilers change an output, which had the bytes before when the call was made.
var spoilers = []struct {
	name  string
	spoil func(before, after []byte)
}{
	{"is missing", func(before, after []byte) { copy(after, before) }},
	{"is short", func(before, after []byte) { copy(after[len(after)/2:], before[len(after)/2:]) }},
	// The kernel cuts a structure that is longer than its room. The fields that it shares with the
	// known one are right, and those that are reserved here have values.
	{"is long", func(before, after []byte) {
		for i := range after {
			if after[i] == before[i] {
				after[i] = 0xff
			}
		}
	}},
	// Counts exceed the room of their lists.
	{"has the largest numbers", func(_, after []byte) {
		for i := range after {
			after[i] = 0xff
		}
	}},
}

// answers is a kernel that spoils one answer, and the later ones of the same call.
type answers struct {
	*fakeverbs.Kernel
	nth     int                        // the number of answers before the spoiled one
	spoil   func(before, after []byte) // nil: none is spoiled
	seen    int                        // the number of answers so far
	call    string                     // the call that the kernel carries out
	spoiled string
	stuck   bool // the kernel refused to destroy an object
}

func newAnswers(info uverbs.DeviceInfo) *answers {
	a := &answers{Kernel: fakeverbs.New(uint32(info.Driver))}
	a.Newest, a.OnDemand = true, true
	a.Asked = func(call string, _ *ioctl.Request) { a.call = call }
	return a
}

func (a *answers) Ioctl(r *ioctl.Request) error {
	before := make(map[uint16][]byte)
	for _, attr := range r.Attrs() {
		if b, ok := r.Bytes(attr.AttrId); ok {
			before[attr.AttrId] = bytes.Clone(b)
		}
	}
	a.call = ""
	if err := a.Kernel.Ioctl(r); err != nil {
		a.stuck = a.stuck || strings.HasSuffix(a.call, "_DESTROY") || strings.HasSuffix(a.call, "_FREE")
		return err
	}
	outputs := make(map[uint16][]byte)
	for _, attr := range r.Attrs() {
		// An output is behind an address, and is 0 before the call.
		after, ok := r.Bytes(attr.AttrId)
		if old := before[attr.AttrId]; ok && len(old) > 0 && attr.Data != 0 && (!bytes.Equal(old, after) || len(bytes.Trim(old, "\x00")) == 0) {
			outputs[attr.AttrId] = after
		}
	}
	if len(outputs) == 0 {
		return nil
	}
	if a.seen++; a.spoil != nil && (a.seen-1 == a.nth || a.call == a.spoiled) {
		a.spoiled = a.call
		for id, after := range outputs {
			a.spoil(before[id], after)
		}
	}
	return nil
}

// stuckDevices keeps devices with objects that the kernel does not destroy from the garbage collector,
// which would close them during another probe.
var stuckDevices []*uverbs.Device

// probe returns what the verb's probe, or opening the device, returns. err is not nil if they leave
// something behind.
func (a *answers) probe(info uverbs.DeviceInfo, v uverbs.Verb) (got, err error) {
	live := regions.Live()
	dev, got := openOn(info, a)
	if got == nil {
		got, err = dev.Probe(v), dev.Close()
	}
	if a.stuck {
		stuckDevices = append(stuckDevices, dev)
		if got == nil && err == nil {
			return nil, errors.New("nobody reports that the kernel refused to destroy an object")
		}
		return got, nil
	}
	if n := regions.Live() - live; n != 0 {
		err = errors.Join(err, fmt.Errorf("%d regions are left", n))
	}
	for _, leak := range a.Leaks() {
		// uverbs does not know the descriptor whose number was spoiled.
		if a.spoiled != "CREATE_COMP_CHANNEL" || !strings.HasPrefix(leak, "descriptor ") {
			err = errors.Join(err, fmt.Errorf("the kernel still has %s", leak))
		}
	}
	return got, err
}
