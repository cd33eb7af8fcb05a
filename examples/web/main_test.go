package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
)

// TestFetch serves a directory on one host and fetches a file of it on another.
func TestFetch(t *testing.T) {
	fabric := rdmatest.NewWith(t, &rdmatest.Options{Endless: true})
	address := fabric.Host(1).Addr() + ":8080"
	dir, want := t.TempDir(), strings.Repeat("over RDMA ", 10000)
	if err := os.WriteFile(filepath.Join(dir, "page.txt"), []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { t.Error(serve(address, dir)) }()
	var got strings.Builder
	err := fetch("http://"+address+"/page.txt", &got)
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); time.Sleep(time.Millisecond) { // until it listens
		err = fetch("http://"+address+"/page.txt", &got)
	}
	if err != nil || got.String() != want {
		t.Errorf("%d bytes of %d, %v", got.Len(), len(want), err)
	}
	if err := fetch("http://"+address+"/nothing.txt", &got); err == nil {
		t.Error("it has what is not there")
	}
}
