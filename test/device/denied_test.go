//go:build vm

package device

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// says runs a command that has to fail with this message.
func says(t *testing.T, cmd *exec.Cmd, want string) {
	t.Helper()
	if diff := cmp.Diff(kit.Output{Err: want + "\n", Code: 1}, kit.RunCommand(t, cmd)); diff != "" {
		t.Errorf("%v (-want +got):\n%s", cmd.Args, diff)
	}
}

func TestWithoutMemlock(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	says(t, kit.Nobody(kit.Child("memory too big")), "memory too big: create MR on gvsiw0: cannot allocate memory: "+
		"RLIMIT_MEMLOCK allows this process 64 KiB of pinned memory and the region needs 1024 KiB more than is pinned already: "+
		"raise the limit (`ulimit -l`, LimitMEMLOCK=, --ulimit memlock=-1) or grant CAP_IPC_LOCK (for siw of Linux 6.1 only the limit counts)")
}

func registerTooMuch([]string) error {
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 64 << 10, Max: 64 << 10}); err != nil {
		return err
	}
	dev, err := uverbs.Open(kit.DummyLink)
	if err != nil {
		return err
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	_, err = pd.AllocMR(1<<20, 0, nil)
	return err
}

// TestWithoutPermission checks the errors of a program that may not open the device nodes, whose mode
// is normally 0666.
func TestWithoutPermission(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	deny := func(path string) {
		t.Helper()
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(path, 0o666) })
	}
	uverbsNode := kit.InfoOf(t, kit.DummyLink).Node
	deny(uverbsNode)
	says(t, kit.Nobody(kit.Child("open")), "open: open device on gvsiw0: open "+uverbsNode+": permission denied: "+
		"allow reading and writing it (`chmod 666 "+uverbsNode+"`)")
	deny("/dev/infiniband/rdma_cm")
	says(t, kit.Nobody(kit.Child("open")), "open: open /dev/infiniband/rdma_cm: permission denied: "+
		"the device node normally has mode 0666: check its mode and, in a container, that the devices cgroup allows it")
}

func openBoth([]string) error {
	ch, err := rdmacm.NewEventChannel()
	if err != nil {
		return err
	}
	defer ch.Close()
	_, err = uverbs.Open(kit.DummyLink)
	return err
}

// TestCredentialsChanged checks that the kernel takes commands only with the credentials that opened the device.
func TestCredentialsChanged(t *testing.T) {
	kit.NoLeak(t)
	says(t, kit.Child("new user"), "new user: create ID: permission denied: "+
		"the credentials changed since the channel was opened: open a new one (after setuid, only a newly started program can)")
}

func changeUser([]string) error {
	ch, err := rdmacm.NewEventChannel()
	if err != nil {
		return err
	}
	defer ch.Close()
	if err := syscall.Setuid(65534); err != nil {
		return err
	}
	_, err = ch.NewID(verbs.PortSpaceTCP, 0)
	return err
}

const noCM = "open /dev/infiniband/rdma_cm: no such file or directory: " +
	"run modprobe rdma_ucm; in a container, also pass in the device node, --device /dev/infiniband/rdma_cm"

func TestWithoutConnectionManager(t *testing.T) {
	kit.Unload(t, "rdma_ucm")
	t.Cleanup(func() { kit.Sh(t, "modprobe rdma_ucm") })
	_, err := rdmacm.Dial(t.Context(), "10.81.0.1:1")
	if err == nil || err.Error() != noCM {
		t.Error(err)
	}
}

// TestWithoutNodes runs in a container that was not given the devices.
func TestWithoutNodes(t *testing.T) {
	kit.Fabric(t)
	j := kit.NewChroot(t)
	says(t, j.Command("/exchange", "-s", ":7471"), "exchange: "+noCM)
	j.Give("/dev/infiniband/rdma_cm")
	uverbsNode := kit.InfoOf(t, kit.DummyLink).Node
	number := kit.DeviceNumber(t, uverbsNode)
	server := kit.Start(t, exec.Command("../../bin/exchange", "-s", ":7471"))
	server.Line(t)
	says(t, j.Command("/exchange", "-c", kit.DummyIPv4+":7471"), "exchange: dial "+kit.DummyIPv4+":7471: open device on gvsiw0: open "+uverbsNode+
		": no such file or directory: create the node (`mknod -m 666 "+uverbsNode+" c "+strings.ReplaceAll(number, ":", " ")+"`), or pass it to the container (--device "+uverbsNode+")")
}
