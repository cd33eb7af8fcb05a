package uverbs_test

import (
	"slices"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// TestFailedCompletion: a failed completion moves the QP to ERR and then flushes it, once. The
// flushed completions follow. A later post is flushed at once.
func TestFailedCompletion(t *testing.T) {
	w := newSpyWorld(t, false)
	if err := w.qp.Init(nil); err != nil {
		t.Fatal(err)
	}
	wr := []verbs.SendWR{{WRID: 5}}
	post := func() {
		if n, err := w.qp.PostSend(wr); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	post()
	w.cqs[0].push(bad(w.qp.Num(), 1), bad(w.qp.Num(), 2))
	begun := len(w.calls)
	if got := w.pollAll(t); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("polled %d", got)
	}
	if got := w.pollAll(t); !slices.Equal(got, []uint64{5}) {
		t.Errorf("polled %d, want the flushed send", got)
	}
	want := []string{"poll", "before modify", "after modify", "INIT to ERR", "flush", "poll"}
	if got := w.calls[begun:]; !slices.Equal(got, want) {
		t.Errorf("calls %q, want %q", got, want)
	}
	begun = len(w.calls)
	post()
	if got := w.pollAll(t); !slices.Equal(got, []uint64{5}) {
		t.Errorf("polled %d, want the flushed send", got)
	}
	want = []string{"send", "before modify", "after modify", "ERR to ERR", "flush", "poll"}
	if got := w.calls[begun:]; !slices.Equal(got, want) {
		t.Errorf("calls %q, want %q", got, want)
	}
}
