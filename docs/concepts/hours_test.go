//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fence is a block of a page. Those without a language are typed into a shell.
var fence = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// TestSandboxHours types the commands of the first and the second hour into one shell, in
// their order, beginning with git clone. The shell runs as in a bare container, without root, with an
// empty home, and with only the system's programs, Go and git in PATH. Commands that need root are left out.
func TestSandboxHours(t *testing.T) {
	if _, err := exec.LookPath("rdmalink"); err != nil {
		t.Skip("it builds rdmalink and the examples again: make sandbox runs it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	var script strings.Builder
	script.WriteString("set -e\n")
	var typed []string
	for _, page := range []string{"first-hour.md", "second-hour.md"} {
		text, err := os.ReadFile(filepath.Join("..", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
			if m[1] != "" || strings.Contains(m[2], "sudo ") {
				continue
			}
			fmt.Fprintf(&script, "echo '<%d>'\n%s", len(typed), m[2])
			typed = append(typed, m[2])
		}
	}
	if len(typed) != 4 {
		t.Fatalf("%d blocks of commands: %q", len(typed), typed)
	}
	// If the kernel has no device, the page continues with doctor.
	fmt.Fprintf(&script, "echo '<%d>'\nid -u\nbin/rdmalink doctor || test $? = 1\n", len(typed))

	shell := bare(t, ctx, script.String())
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	parts := regexp.MustCompile(`(?m)^<\d+>\n`).Split(string(out), -1)[1:]
	steps := output(t, "tutorial.md")
	for i, want := range []string{steps, "\n--- PASS: TestBroken ", "hello, RDMA\n", "\n--- PASS: TestTorn ", "rdma"} {
		if !strings.Contains(parts[i], want) {
			t.Errorf("%s\nprinted\n%s\nwithout\n%s", slices.Concat(typed, []string{"doctor"})[i], parts[i], want)
		}
	}
	if uid, _, _ := strings.Cut(parts[len(typed)], "\n"); uid == "0" {
		t.Error("the commands ran as root")
	}
}

// output returns the first output that a page shows.
func output(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "```text\n")
	shown, _, _ := strings.Cut(after, "```")
	return shown
}

// bare returns a shell in an empty directory, as the user nobody of a user namespace. It shares only the
// caches of Go with this host.
func bare(t *testing.T, ctx context.Context, script string) *exec.Cmd {
	t.Helper()
	dir, bin := t.TempDir(), t.TempDir()
	for _, program := range []string{"go", "git"} {
		path, err := exec.LookPath(program)
		if err == nil {
			path, err = filepath.EvalSymlinks(path)
		}
		if err == nil {
			err = os.Symlink(path, filepath.Join(bin, program))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	shell := exec.CommandContext(ctx, "/bin/sh", "-c", script)
	shell.Dir = dir
	shell.Env = []string{"HOME=" + dir, "PATH=" + bin + ":/usr/bin:/bin", "GOFLAGS=-trimpath", "GIT_CONFIG_COUNT=2",
		"GIT_CONFIG_KEY_0=url." + repository(t, ctx) + ".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/goverbs/goverbs",
		"GIT_CONFIG_KEY_1=safe.directory", "GIT_CONFIG_VALUE_1=*"}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOROOT"} {
		value, err := exec.CommandContext(ctx, "go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		shell.Env = append(shell.Env, name+"="+strings.TrimSpace(string(value)))
	}
	const nobody = 65534
	shell.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getgid(), Size: 1}},
	}
	return shell
}

// repository creates a repository with the current files of this one.
func repository(t *testing.T, ctx context.Context) string {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) []byte {
		c := exec.CommandContext(ctx, "git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "safe.directory=*"}, args...)...)
		out, err := c.Output()
		if err != nil {
			t.Fatalf("git %s: %v", args, err)
		}
		return out
	}
	const top = "../.."
	for name := range bytes.SplitSeq(bytes.TrimSuffix(git("-C", top, "ls-files", "-zco", "--exclude-standard"), []byte{0}), []byte{0}) {
		from, to := filepath.Join(top, string(name)), filepath.Join(dir, string(name))
		b, err := os.ReadFile(from)
		if os.IsNotExist(err) { // deleted, and not yet committed
			continue
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		if err == nil {
			err = os.WriteFile(to, b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	git("-C", dir, "init", "-q")
	git("-C", dir, "add", "-A", "-f")
	git("-C", dir, "commit", "-q", "-m", "as it is")
	return dir
}
