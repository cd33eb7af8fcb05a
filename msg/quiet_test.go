package msg

import "testing"

// Whatever was sent without a completion, the program can have a window of buffers.
func TestQuietMessagesKeepNoBuffers(t *testing.T) {
	s, err := (&Config{EagerSize: 64, Window: 32}).shape()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, s)
	w.open()
	a, b := w.ends[0].conn, w.ends[1].conn
	for sent := 1; sent <= 12; sent++ {
		if err := a.Send(t.Context(), []byte("hello")); err != nil {
			t.Fatal(err)
		}
		w.settle()
		m, err := b.Recv(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m.Release()
		if free, quiet := len(a.small), sent%4; free != s.window+3-quiet {
			t.Errorf("%d buffers are free after %d messages", free, sent)
		}
	}
}
