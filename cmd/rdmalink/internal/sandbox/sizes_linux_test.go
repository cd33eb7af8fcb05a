package sandbox

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/internal/record"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestSizesOnCores checks, for a thousand random queue sizes, that libmlx5 and provider/mlx5 grant
// the same, refuse the same, and request the same from the kernel.
func TestSizesOnCores(t *testing.T) {
	long(t)
	onCores(t, sizes)
}

func sizes(t *testing.T, c core) {
	program := c.compiled(t, "../../../../test/sandbox/sizes.c")
	dir := t.TempDir()
	requests, recording := sizeRequests(), filepath.Join(dir, "c.rec")
	file := filepath.Join(dir, "requests")
	if err := os.WriteFile(file, []byte(strings.Join(requests, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := c.inside(t, []string{"-d", "mlx5", "-r", recording}, program, file)
	if err != nil {
		t.Fatal(err, out)
	}
	text, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	granted, asked := strings.Split(strings.TrimSpace(out), "\n"), sizesAsked(string(text))
	ourGranted, ourAsked := ourSizes(t, requests)
	if len(granted) != len(requests) {
		t.Fatalf("%d answers to %d requests", len(granted), len(requests))
	}
	refused := 0
	for i, r := range requests {
		if granted[i] != ourGranted[i] {
			t.Errorf("%s: %s, ours %s", r, granted[i], ourGranted[i])
		}
		if granted[i] == "refused" {
			refused++
		}
	}
	if a, b := strings.Join(asked, "\n"), strings.Join(ourAsked, "\n"); a != b {
		t.Errorf("asked of the kernel: %d queue pairs, of ours %d, or other sizes", len(asked), len(ourAsked))
	}
	if refused < 50 || refused > 800 {
		t.Errorf("%d of %d are refused", refused, len(requests))
	}
}

// sizeRequests are lines of test/sandbox/sizes.c.
func sizeRequests() (lines []string) {
	r := rand.New(rand.NewPCG(14, 0))
	for range 1000 {
		switch kind := r.IntN(10); kind {
		case 0:
			lines = append(lines, fmt.Sprintf("CQ %d", 1+r.Uint32()>>(20+r.UintN(12))))
		case 1:
			lines = append(lines, fmt.Sprintf("SRQ %d %d", 1+r.Uint32()>>(16+r.UintN(16)), 1+r.IntN(34)))
		default:
			typ := []string{"rc", "uc", "ud", "srq"}[r.IntN(4)]
			lines = append(lines, fmt.Sprintf("QP %s %d %d %d %d %d", typ, 1+r.Uint32()>>(17+r.UintN(15)), 1+r.Uint32()>>(16+r.UintN(16)),
				1+r.IntN(32), 1+r.IntN(34), r.IntN(2)*r.IntN(900)))
		}
	}
	return lines
}

var askedSizes = regexp.MustCompile(`sq_wqe_count=\d+ rq_wqe_count=\d+ rq_wqe_shift=\d+`)

// sizesAsked returns the sizes of the queue pairs in a recording.
func sizesAsked(recording string) []string { return askedSizes.FindAllString(recording, -1) }

// ourSizes carries the requests out with provider/mlx5.
func ourSizes(t *testing.T, requests []string) (granted, asked []string) {
	t.Helper()
	k := fakeverbs.New(uint32(verbs.DriverMLX5))
	var b bytes.Buffer
	record.New(&b).Attach(k)
	dev := opened[*uverbs.Device](t)(uverbs.DeviceInfo{Name: "mlx5_0", Driver: verbs.DriverMLX5, ABI: 1, Node: kernel.Node(k)}.Open())
	pd := opened[*uverbs.PD](t)(dev.AllocPD())
	cq := opened[*uverbs.CQ](t)(dev.CreateCQ(1, nil))
	srq := opened[*uverbs.SRQ](t)(pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1, MaxSGE: 1}))
	for _, line := range requests {
		granted = append(granted, ourSize(t, line, dev, pd, cq, srq))
	}
	return granted, sizesAsked(b.String())
}

// opened is an object that the end of the test closes.
func opened[T interface{ Close() error }](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := v.Close(); err != nil {
				t.Error(err)
			}
		})
		return v
	}
}

func ourSize(t *testing.T, line string, dev *uverbs.Device, pd *uverbs.PD, cq *uverbs.CQ, srq *uverbs.SRQ) (granted string) {
	t.Helper()
	var made interface{ Close() error }
	var n, sge int
	var typ string
	var c verbs.QPCap
	if _, err := fmt.Sscanf(line, "CQ %d", &n); err == nil {
		own, err := dev.CreateCQ(n, nil)
		if err != nil {
			return "refused"
		}
		made, granted = own, fmt.Sprint(own.Cap())
	} else if _, err := fmt.Sscanf(line, "SRQ %d %d", &n, &sge); err == nil {
		own, err := pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: uint32(n), MaxSGE: uint32(sge)})
		if err != nil {
			return "refused"
		}
		made, granted = own, fmt.Sprint(own.MaxWR(), " ", own.MaxSGE())
	} else if _, err := fmt.Sscanf(line, "QP %s %d %d %d %d %d", &typ, &c.MaxSendWR, &c.MaxRecvWR, &c.MaxSendSGE, &c.MaxRecvSGE, &c.MaxInline); err != nil {
		t.Fatal(line, err)
	} else {
		o := &uverbs.QPOptions{SendCQ: cq, RecvCQ: cq, Cap: c}
		switch typ {
		case "uc":
			o.Type = verbs.QPTypeUC
		case "ud":
			o.Type = verbs.QPTypeUD
		case "srq":
			o.SRQ = srq
		}
		own, err := pd.CreateQP(o)
		if err != nil {
			return "refused"
		}
		c = own.Cap()
		made, granted = own, fmt.Sprint(c.MaxSendWR, " ", c.MaxRecvWR, " ", c.MaxSendSGE, " ", c.MaxRecvSGE, " ", c.MaxInline)
	}
	if err := made.Close(); err != nil {
		t.Error(err)
	}
	return granted
}
