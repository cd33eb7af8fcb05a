package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// TestForbidden checks the error, with cause and remedy, if seccomp is not
// available.
func TestForbidden(t *testing.T) {
	for errno, want := range map[unix.Errno]string{
		unix.EPERM: "--security-opt seccomp=unconfined", unix.EACCES: "--security-opt seccomp=unconfined",
		unix.ENOSYS: "older than 5.9", unix.EINVAL: "older than 5.9", unix.EBUSY: "can't be nested",
	} {
		if err := explain(errno); !errors.Is(err, errno) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestRefused runs the command where a filter, as that of a container, forbids filters with a listener: it is not
// started, and the error has cause and remedy.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "refuse.c")
	if err := os.WriteFile(source, []byte(refuse), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "error")
	c := exec.Command(compiled(t, source), os.Args[0], "--", "echo", "started")
	c.Env = append(os.Environ(), errorFile+"="+file)
	out, err := c.CombinedOutput()
	reason, _ := os.ReadFile(file)
	if err == nil || len(out) > 0 || !strings.HasPrefix(string(reason), "seccomp: operation not permitted: whatever runs this forbids seccomp") {
		t.Errorf("%v %s\n%s", err, reason, out)
	}
}

const refuse = `
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int n, char **words)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SECCOMP_FILTER_FLAG_NEW_LISTENER, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof(code) / sizeof(*code), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		return 2;
	execv(words[1], words + 1);
	return 3;
}
`

// TestManyProcesses lets 16 processes use each of the eight devices of a machine at the same time.
func TestManyProcesses(t *testing.T) {
	long(t)
	source := filepath.Join(t.TempDir(), "devices.c")
	if err := os.WriteFile(source, []byte(devices), 0o600); err != nil {
		t.Fatal(err)
	}
	program := compiled(t, source)
	out, err := inside(t, []string{"--profile", "dgx-h100"}, "sh", "-c",
		fmt.Sprintf(`for i in $(seq 16); do %s & done; wait; read -r _ _ _ supervisor _ </proc/$PPID/stat; grep VmHWM /proc/$supervisor/status`, program))
	if err != nil || strings.Count(out, "8 devices\n") != 16 {
		t.Errorf("%v\n%s", err, out)
	}
	t.Log(out[strings.LastIndex(out, "VmHWM"):])
}

const devices = `
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	struct ibv_device **all;
	int i, n;

	all = ibv_get_device_list(&n);
	for (i = 0; i < n; i++) {
		struct ibv_context *device = ibv_open_device(all[i]);
		struct ibv_pd *pd = device ? ibv_alloc_pd(device) : 0;

		if (!pd || !ibv_reg_mr(pd, aligned_alloc(4096, 65536), 65536, IBV_ACCESS_LOCAL_WRITE) || !ibv_create_cq(device, 64, 0, 0, 0))
			return 2;
	}
	printf("%d devices\n", n);
	return 0;
}
`

// TestNested checks that a sandbox in a sandbox fails with an error.
func TestNested(t *testing.T) {
	const inner = "GOVERBS_INNER_SANDBOX"
	if os.Getenv(inner) != "" {
		_, err := inside(t, nil, "true")
		fmt.Println("inner:", err)
		return
	}
	t.Setenv(inner, "1")
	if out, err := inside(t, nil, os.Args[0], "-test.run=^TestNested$"); err != nil || !strings.Contains(out, "inner: seccomp: device or resource busy: a supervisor listens already; sandboxes can't be nested") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestTerminated checks that a sandbox that gets SIGTERM passes it on, and ends as its command does.
func TestTerminated(t *testing.T) {
	for code, want := range map[int]error{0: nil, 7: cli.ExitCode(7)} {
		// The command's parent is the guard, and the guard's parent is the supervisor.
		out, err := inside(t, nil, "sh", "-c", fmt.Sprintf(`trap 'exit %d' TERM; read -r _ _ _ supervisor _ </proc/$PPID/stat; kill -TERM $supervisor; while :; do sleep 0.01; done`, code))
		if err != want || out != "" {
			t.Errorf("a command that ends with %d: %v\n%s", code, err, out)
		}
	}
}

// TestBecomeFails checks that the process between the supervisor and the command leaves the report of an
// error to the supervisor.
func TestBecomeFails(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	defer theirs.Close()
	c := exec.Command("sh", "-c", `ulimit -n 500; exec "$0" sandbox -- true true`, os.Args[0])
	c.Env = append(os.Environ(), stage+"="+becoming)
	c.ExtraFiles = []*os.File{theirs}
	if out, err := c.CombinedOutput(); err == nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
	message := make([]byte, 1024)
	n, _, err := unix.Recvfrom(pair[0], message, unix.MSG_DONTWAIT)
	if err != nil || !strings.Contains(string(message[:n]), "the limit of open files is 500") {
		t.Errorf("%q, %v", message[:n], err)
	}
}
