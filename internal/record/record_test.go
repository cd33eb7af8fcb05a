package record

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/models"
)

// TestMasked checks that values that differ from run to run are replaced, in a way that still
// shows whether two values are the same, and that streams are joined.
func TestMasked(t *testing.T) {
	const raw = "7 calls GET_CONTEXT.out a=1\n" +
		"3 calls GET_CONTEXT.out a=1\n" +
		"1 calls a out=@0x1000 id=%q7\n" +
		"1 qp.send%q7 sqe key=#0x100 n=5\n" +
		"2 qp.send%q9 sqe key=#0x200 n=0x100\n" +
		"1 cq%c7 cqe key=#0x200\n" +
		"1 qp.send%q7 sqe key=#0x100 n=6\n" +
		"3 cq%c7 arm key=#0x200\n"
	const want = "1 calls GET_CONTEXT.out a=1\n" +
		"2 calls a out=@ id=%1\n" +
		"2 qp.send%1 sqe key=#1 n=5\n" +
		"2 qp.send%1 sqe key=#1 n=6\n" +
		"3 qp.send%2 sqe key=#2 n=0x100\n" +
		"2 cq%3 cqe key=#2\n" +
		"1 cq%3 arm key=#2\n"
	if got, err := Masked(strings.NewReader(raw)); got != want || err != nil {
		t.Errorf("%v\n%s", err, got)
	}
	if _, err := Masked(strings.NewReader("nonsense\n")); err == nil {
		t.Error("any text is a recording")
	}
}

func TestDiff(t *testing.T) {
	const a = "1 s one\n1 s two key=#0x1\n1 s three key=#0x2\n1 s four\n"
	for _, c := range []struct{ b, want string }{
		{"1 s one\n1 s two key=#0x9\n1 s three key=#0x8\n1 s four\n", ""},
		{"1 s one\n1 s two key=#0x9\n1 s three key=#0x9\n1 s four\n", "-1 s three key=#2\n+1 s three key=#1\n"},
		{"1 s one\n1 s four\n", "-1 s two key=#1\n-1 s three key=#2\n"},
		{a + "1 s five\n", "+1 s five\n"},
		{"", "-1 s one\n-1 s two key=#1\n-1 s three key=#2\n-1 s four\n"},
	} {
		if got, err := Diff(strings.NewReader(a), strings.NewReader(c.b)); got != c.want || err != nil {
			t.Errorf("%q:\n%v\n%s", c.b, err, got)
		}
	}
}

// TestRecorder checks that each opening has its number, and that an earlier observer is still called.
func TestRecorder(t *testing.T) {
	var b bytes.Buffer
	r := New(&b)
	one, two := fakeverbs.New(abi.RDMA_DRIVER_ERDMA), fakeverbs.New(abi.RDMA_DRIVER_ERDMA)
	two.Cross = func(c *fakeverbs.Crossing) { c.Value = 1<<31 | 3<<32 }
	r.Attach(one)
	r.Attach(two)
	one.Cross(&fakeverbs.Crossing{Kind: fakeverbs.Doorbell, Page: 1, Size: 8, Value: 5<<32 | 4})
	two.Cross(&fakeverbs.Crossing{Kind: fakeverbs.Doorbell, Page: 3, Size: 8})
	one.Cross(&fakeverbs.Crossing{Kind: fakeverbs.CallIn, Call: "ALLOC_PD"})
	const want = "1 qp.send%q5 doorbell value=0x4 size=8\n2 cq%c3 doorbell arm=1 solicited=0 events=0 index=0 consumed=0 size=8\n"
	if b.String() != want || r.Err() != nil {
		t.Errorf("%v\n%s", r.Err(), b.String())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestRecorderError(t *testing.T) {
	r := New(broken{})
	k := fakeverbs.New(abi.RDMA_DRIVER_ERDMA)
	r.Attach(k)
	k.Cross(&fakeverbs.Crossing{Kind: fakeverbs.EntryRQE, Bytes: make([]byte, 32)})
	if r.Err() == nil {
		t.Error("no error")
	}
}
