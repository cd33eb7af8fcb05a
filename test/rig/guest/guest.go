//go:build linux

// Package guest is the first process of the test machine: it makes the host's
// files the guest's root, loads modules, runs one command and reports.
package guest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/test/rig"
)

// Enter turns the process into the guest's init, and does not return, if it was
// started as that. A program that boots guests calls it first in main. Being
// pid 1 is not enough: in a container every program may be.
func Enter() {
	if os.Getpid() != 1 || os.Args[0] != rig.InitFile {
		return
	}
	if _, err := os.Stat(rig.JobFile); err != nil {
		return
	}
	job, port, err := start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm: init:", err)
		powerOff()
	}
	frames := rig.NewFrameWriter(port)
	if err := prepare(job); err != nil {
		frames.Write(rig.FrameFailed, []byte(err.Error()))
	} else {
		frames.Write(rig.FrameReady, nil)
		report(frames, job)
	}
	// The host ends the machine when it has read the last frame.
	time.Sleep(5 * time.Minute)
	powerOff()
}

func report(frames *rig.FrameWriter, job rig.Job) {
	code, err := run(job, frames)
	if err != nil {
		frames.Write(rig.FrameFailed, []byte(err.Error()))
		return
	}
	frames.Write(rig.FrameExit, []byte(strconv.Itoa(code)))
}

func powerOff() {
	unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	select {}
}

// start gets far enough to have the port to the host.
func start() (rig.Job, *os.File, error) {
	var job rig.Job
	for _, m := range []mount{
		{"devtmpfs", "/dev", "devtmpfs", 0, ""},
		{"proc", "/proc", "proc", 0, ""},
		{"sysfs", "/sys", "sysfs", 0, ""},
	} {
		if err := m.do(); err != nil {
			return job, nil, err
		}
	}
	text, err := os.ReadFile(rig.JobFile)
	if err != nil {
		return job, nil, err
	}
	if err := json.Unmarshal(text, &job); err != nil {
		return job, nil, fmt.Errorf("%s: %w", rig.JobFile, err)
	}
	for _, file := range job.Insmod {
		if err := insmod(file); err != nil {
			return job, nil, err
		}
	}
	port, err := openPort(job)
	return job, port, err
}

func insmod(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && err != unix.EEXIST {
		return fmt.Errorf("load %s: %w", file, err)
	}
	return nil
}

// openPort waits for the serial port: its driver probes in the background.
func openPort(job rig.Job) (*os.File, error) {
	if job.UML {
		return openLine("/dev/ttyS0")
	}
	for range 6000 {
		if ports, _ := filepath.Glob("/dev/vport*"); len(ports) > 0 {
			return os.OpenFile(ports[0], os.O_WRONLY, 0)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, fmt.Errorf("no serial port to the host appeared in /dev")
}

// openLine opens a terminal to the host, and has it pass every byte as it is.
func openLine(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	t, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err == nil {
		t.Oflag &^= unix.OPOST
		err = unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, t)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("set up %s: %w", name, err)
	}
	return f, nil
}

// prepare makes the guest a machine: root, modules, loopback, name.
func prepare(job rig.Job) error {
	if err := mountRoot(job); err != nil {
		return err
	}
	if err := linkModules(job.Modules); err != nil {
		return err
	}
	for _, m := range job.Load {
		if out, err := exec.Command("/sbin/modprobe", m).CombinedOutput(); err != nil {
			return fmt.Errorf("modprobe %s: %w: %s", m, err, out)
		}
	}
	if job.UML {
		if err := tellClock(job.CPUMHz); err != nil {
			return err
		}
	}
	if job.ShortSlices {
		if err := shortenSlices(); err != nil {
			return err
		}
	}
	if err := unix.Sethostname([]byte("vm")); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	return loopbackUp()
}

// linkModules lets modprobe, and the kernel that calls it, find the modules.
func linkModules(dir string) error {
	if err := os.MkdirAll("/lib/modules", 0o755); err != nil {
		return err
	}
	link := filepath.Join("/lib/modules", filepath.Base(dir))
	if err := os.RemoveAll(link); err != nil {
		return err
	}
	return os.Symlink(dir, link)
}

func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	return nil
}
