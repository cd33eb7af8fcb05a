package wait

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"testing"
)

// TestSync checks that Sync returns once all records that were there have been taken, and when Serve
// has ended.
func TestSync(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	source, err := OpenFile(r)
	if err != nil {
		t.Fatal(err)
	}
	reader := NewReader(source, recordSize)
	var taken sync.Map
	ended := make(chan error)
	go func() {
		ended <- reader.Serve(func(b []byte) { taken.Store(binary.NativeEndian.Uint64(b), true) })
	}()
	var all sync.WaitGroup
	for i := range uint64(4) {
		all.Go(func() {
			for j := range uint64(200) {
				n := i<<32 | j
				if _, err := w.Write(binary.NativeEndian.AppendUint64(nil, n)); err != nil {
					t.Error(err)
				}
				reader.Sync()
				if _, ok := taken.Load(n); !ok {
					t.Errorf("record %#x was not taken", n)
				}
			}
		})
	}
	all.Wait()
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	reader.Sync()
}
