package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// network is an environment variable with the addresses of the command's network namespace. The guard removes it.
const network = "RDMALINK_SANDBOX_NETWORK"

// interfaceName is the interface that has the addresses. Programs leave out lo.
const interfaceName = "eth0"

// unshare makes the guard start in a network namespace, whose interface will have the addresses of the hosts. Users
// other than root need a user namespace for it, in which they stay themselves.
func unshare(guard *exec.Cmd, hosts []*machine) {
	var addrs []string
	for _, m := range hosts {
		addrs = append(addrs, m.addr.String()+"/24")
	}
	guard.Env = append(guard.Env, network+"="+strings.Join(addrs, " "))
	a := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	if uid := os.Geteuid(); uid != 0 {
		a.Cloneflags |= unix.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		a.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN}
	}
	guard.SysProcAttr = a
}

// explainUnshare returns the error for a guard that could not be started.
func explainUnshare(err error) error {
	return fmt.Errorf("--netns: %w: the kernel, or whatever runs this, forbids new network namespaces, or new user namespaces, which users other than root need (docker run --privileged)", err)
}

// makeNetwork sets the interfaces of this process's network namespace up.
func makeNetwork(addrs string) error {
	if addrs == "" {
		return nil
	}
	if err := addInterface(strings.Fields(addrs)); err != nil {
		return fmt.Errorf("--netns: add network interface %s: %w", interfaceName, err)
	}
	return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
}

func addInterface(addrs []string) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	attrs := netlink.LinkAttrs{Name: interfaceName}
	var link netlink.Link = &netlink.Dummy{LinkAttrs: attrs}
	if err = netlink.LinkAdd(link); errors.Is(err, unix.EOPNOTSUPP) { // a kernel without the module dummy
		link = &netlink.Bridge{LinkAttrs: attrs}
		err = netlink.LinkAdd(link)
	}
	if err != nil {
		return err
	}
	for _, text := range addrs {
		addr, err := netlink.ParseAddr(text)
		if err == nil {
			err = netlink.AddrAdd(link, addr)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(netlink.LinkSetUp(lo), netlink.LinkSetUp(link))
}
