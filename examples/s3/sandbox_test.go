//go:build linux

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// inSandbox has the program three times, as three processes.
const inSandbox = `
mkfifo where
$S3 -dc-key $KEY -dev $DEVICE -listen 127.0.0.1:0 -dir . -any-peer >where 2>log &
read url <where
$S3 -dc-key $KEY -dev $DEVICE cp file $url/bucket/key &&
$S3 -dc-key $KEY -dev $DEVICE cp $url/bucket/key copy
kill $!
`

// TestSandbox runs the program itself, on devices that rdmalink shows it.
func TestSandbox(t *testing.T) {
	rdmalink, err := exec.LookPath("rdmalink")
	if err != nil {
		t.Skip("rdmalink is not installed: go install github.com/goverbs/goverbs/cmd/rdmalink@latest")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	program := filepath.Join(t.TempDir(), "s3")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := bytes.Repeat([]byte("an object "), 1e5)
	for _, test := range []struct{ kind, device, key string }{{"rxe", "rxe0", "0"}, {"mlx5", "mlx5_0", "0"}, {"mlx5", "mlx5_0", "0xffeeddcc"}} {
		t.Run(test.kind+" "+test.key, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "file"), want, 0o600); err != nil {
				t.Fatal(err)
			}
			run := exec.CommandContext(ctx, rdmalink, "sandbox", "--device", test.kind, "--", "sh", "-c", inSandbox)
			run.Dir = dir
			run.Env = append(os.Environ(), "S3="+program, "DEVICE="+test.device, "KEY="+test.key, "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b")
			out, err := run.CombinedOutput()
			if err != nil || string(out) != "1000000 bytes by RDMA\n1000000 bytes by RDMA\n" {
				log, _ := os.ReadFile(filepath.Join(dir, "log"))
				t.Errorf("%v\n%s\n%s", err, out, log)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "copy")); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}
