package sandbox

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/goverbs/goverbs/internal/record"
)

// libibverbsDiffers lists the requests in which libibverbs differs from package uverbs, with
// the reasons. Matches in libibverbs' recording are replaced before the recordings are
// compared. Not compared are DMA handles: the models of the sandbox are Linux 6.12, which has none,
// and libibverbs of Debian 12 has none either. Of a dma-buf only the request is compared, because the
// sandbox registers no memory but that of its programs.
var libibverbsDiffers = []struct{ kind, theirs, ours, why string }{
	{"mlx5", opening, "", "libmlx5 and provider/mlx5 request different things; TestScriptOnCores compares their requests to the driver"},
	{"mlx5", `(asks.SRQ_CREATE .*) 5:4=31`, "$1 5:4=15", "libmlx5 makes SRQs of twice the size, for page faults"},
	{"mlx5", `(asks.QP_CREATE .*)[23]c 9:8=`, "${1}20 9:8=", "libmlx5 asks for the inline data that a WQE has room for; the driver looks at its own bytes"},
	{"mlx5", `(asks.CREATE_FLOW .*) 4096:8=private`, "$1", "libmlx5 passes a list of counters, which is empty"},
	{"mlx5", `(asks.DM_ALLOC .*) 4098:8=0`, "$1", "libmlx5 names the kind of memory, which is the one that the kernel takes anyway"},
	{"mlx5", `(asks.OPEN_QP .*?)( Reserved=\w+)? out:`, "$1 out:", "libmlx5 passes reserved bytes as it finds them on its stack"},
	{"mlx5", `(asks.QUERY_CONTEXT request 0:4=out) 1:8=out`, "$1", "it asks for the same flags of regions when it imports"},
	{"mlx5", `(asks.QUERY_MR .*) 3:8=out`, "$1 3:8=out 4:8=out", "libmlx5 leaves it to the program where an imported region is; package uverbs asks"},
	{"rxe", `(?m)^(.*)( asks.GET_CONTEXT .*\n)`, "$1$2$1 asks.QUERY_DEVICE request in:8 out:304\n", "opening it, package uverbs asks for the device's limits"},
	{"", `(?m)^.* asks.QUERY_DEVICE_LEGACY .*\n`, "", "it tries whether the kernel takes commands by ioctl; package uverbs needs a kernel that does"},
	{"", `(asks.GET_CONTEXT request 0:4=out) 1:8=out`, "$1", "it asks which flags of regions the kernel ignores if it does not know them; package uverbs leaves it to the program"},
	{"", `(asks.CQ_CREATE .*) 7:0=@`, "$1", "it names the descriptor of asynchronous events; without that the kernel takes the file's only one"},
	{"", `(asks.SRQ_CREATE .*) 10:0=@`, "$1", "the same"},
	{"", `(asks.QP_CREATE .*) 12:0=@`, "$1", "the same"},
	{"mlx5", `(asks.WQ_CREATE .*) 5:0=@`, "$1", "the same"},
	{"", `(asks.QUERY_GID_TABLE .*) 2:256=out`, "$1 2:65504=out", "room for how many is the caller's to say; package uverbs has room for the most"},
	{"", `(asks.QUERY_QP .*) AttrMask=524289`, "$1 AttrMask=2097151", "the caller's mask, which the kernel does not need; package uverbs asks for all"},
}

// opening are the requests with which a provider of hardware gets ready.
const opening = `(?m)^.* asks.(GET_CONTEXT|QUERY_DEVICE|QUERY_PORT|QUERY_GID_ENTRY|UAR_OBJ_ALLOC) .*\n`

// ofStack are bytes of DM_ALLOC that libmlx5 passes as it finds them on its stack.
var ofStack = regexp.MustCompile(`(?m)^(.* calls DM_ALLOC\.in) more=\w+$`)

// TestRequestsOnCores checks that libibverbs and package uverbs make the same kernel requests for
// each verb: object, method, attributes, lengths and values.
func TestRequestsOnCores(t *testing.T) {
	long(t)
	onCores(t, requests)
}

func requests(t *testing.T, core core) {
	const root = "../../../../"
	program := core.compiled(t, root+"test/sandbox/requests.c")
	matched := make(map[string]bool)
	for _, kind := range []string{"rxe", "siw", "mlx5"} {
		t.Run(kind, func(t *testing.T) {
			recording := recordAsked(t, core, program, kind)
			asked := part(t, recording, func(recording string) string {
				recording = record.Requests(recording)
				for _, d := range libibverbsDiffers {
					if d.kind != "" && d.kind != kind {
						continue
					}
					re := regexp.MustCompile(d.theirs)
					matched[d.theirs] = matched[d.theirs] || re.MatchString(recording)
					recording = re.ReplaceAllString(recording, d.ours)
				}
				return recording
			})
			golden := root + "uverbs/testdata/requests-" + kind + ".rec"
			if kind == "mlx5" {
				golden = part(t, golden, func(recording string) string { return regexp.MustCompile(opening).ReplaceAllString(recording, "") })
			}
			if text, err := compared(t, golden, asked); text != "" || err != nil {
				t.Errorf("%v (-ours +libibverbs):\n%s", err, text)
			}
			if kind != "mlx5" { // the others have hardly any private bytes
				return
			}
			private := part(t, recording, func(recording string) string {
				return ofStack.ReplaceAllString(record.Private(recording), "$1")
			})
			if text, err := compared(t, root+"uverbs/testdata/private-mlx5.rec", private); text != "" || err != nil {
				t.Errorf("private bytes: %v (-ours +libmlx5):\n%s", err, text)
			}
		})
	}
	for _, d := range libibverbsDiffers {
		if !matched[d.theirs] {
			t.Errorf("%s is the same in both", d.theirs)
		}
	}
}

// recordAsked is a recording of test/sandbox/requests.c.
func recordAsked(t *testing.T, c core, program, kind string) (recording string) {
	t.Helper()
	recording = filepath.Join(t.TempDir(), "c.rec")
	out, err := c.inside(t, []string{"-d", kind, "-r", recording}, "env", "MLX5_SCATTER_TO_CQE=0", program, kind)
	if err != nil || out != "asked\n" {
		t.Fatalf("%v\n%s", err, out)
	}
	return recording
}
