//go:build vm

package tool

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/test/kit"
)

// TestExampleS3 moves objects by RDMA on the kernel's rxe, and by plain HTTP on the same network interface. It prints
// how long both take.
func TestExampleS3(t *testing.T) {
	kit.Only612(t)
	kit.CMLink(t, "rxe")
	kit.NoLeak(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "me")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	dir, local := t.TempDir(), t.TempDir()
	kit.OK(t, os.Mkdir(filepath.Join(dir, "bucket"), 0o777))
	const size = 8 << 20 // docs/s3.md has the times of 64 MiB
	want := make([]byte, size)
	rand.New(rand.NewSource(1)).Read(want)
	small := filepath.Join(local, "small")
	kit.OK(t, os.WriteFile(small, want[:4<<20], 0o666))
	kit.OK(t, os.WriteFile(filepath.Join(dir, "bucket", "large"), want, 0o666))

	const at = "10.78.0.1:9000"
	server := kit.Launch(t, example("s3", "-dev", "cmlink", "-listen", at, "-dir", dir))
	server.Until("http://" + at)
	prints(t, example("s3", "-dev", "cmlink", "cp", small, "http://"+at+"/bucket/small"), "4194304 bytes by RDMA\n")
	got, err := os.ReadFile(filepath.Join(dir, "bucket", "small"))
	kit.OK(t, err)
	if string(got) != string(want[:4<<20]) {
		t.Errorf("PUT: other %d bytes", len(got))
	}
	took := make(map[string]time.Duration)
	for how, args := range map[string][]string{"RDMA": {"-dev", "cmlink"}, "plain HTTP": nil} {
		copied := filepath.Join(local, "copy")
		began := time.Now()
		prints(t, example("s3", append(args, "cp", "http://"+at+"/bucket/large", copied)...), fmt.Sprintf("%d bytes by %s\n", size, how))
		took[how] = time.Since(began)
		got, err := os.ReadFile(copied)
		kit.OK(t, err)
		if string(got) != string(want) {
			t.Errorf("%s: other %d bytes", how, len(got))
		}
	}
	t.Logf("GET of %d bytes: %v by RDMA, %v by plain HTTP", size, took["RDMA"], took["plain HTTP"])
	kit.OK(t, server.Process.Signal(syscall.SIGTERM))
	if end := server.End(); end.Code != 0 {
		t.Errorf("%+v", end)
	}
}
