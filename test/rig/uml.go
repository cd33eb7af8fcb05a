//go:build linux

package rig

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// UML is User Mode Linux: a kernel of Debian's 6.12 sources that is a process of
// the host. It has one CPU, and runs programs at the speed of the host's. It takes
// minutes to build.
const UML = "uml-6.12"

// umlConfig lists the enabled options, in lines of a kernel's .config.
//
//go:embed uml.config
var umlConfig string

func (k Kernel) uml() bool { return k.Series == UML }

// umlMark ends the release of a kernel with this configuration.
func umlMark(config string) string {
	sum := sha256.Sum256([]byte(config))
	return "-uml-" + hex.EncodeToString(sum[:4])
}

// umlRelease is what uname -r says of the kernel that is made from a version of
// Debian's linux-source: "6.12.117-1+deb12u1-uml-1a2b3c4d". The number up to the
// dash is the kernel's own.
func umlRelease(version, config string) string {
	return strings.ReplaceAll(version, "~", "+") + umlMark(config)
}

// umlArgs describes the guest. UML takes descriptors as QEMU does: see [qemuArgs].
func umlArgs(mem int) []string {
	return []string{
		"mem=" + strconv.Itoa(mem) + "M", "initrd=/dev/fd/5", "uml_dir=/proc/",
		"con=null", "con0=null,fd:3", "ssl=null", "ssl0=null,fd:4",
		"loglevel=5", "panic=-1", "oops=panic", "dummy.numdummies=0",
	}
}

// umlEnv keeps UML from making files in the caller's home, which killing it
// would leave there. It puts the guest's memory into a file without a name, by
// itself into /dev/shm, which in a container may be small, or not for programs.
func umlEnv(mem int) []string {
	var fs unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &fs); err == nil && fs.Flags&unix.ST_NOEXEC == 0 && fs.Bavail*uint64(fs.Bsize) >= uint64(mem)<<20 {
		return []string{"TMPDIR=/dev/shm"}
	}
	return []string{"TMPDIR=/tmp"}
}

// checkUML says what to do about a kernel that is not of this configuration.
func checkUML(k Kernel) error {
	if k.uml() && !strings.HasSuffix(k.Release, umlMark(umlConfig)) {
		return fmt.Errorf("%s is of another configuration than test/rig/uml.config: run `go run ./test/cmd/vm fetch -kernel %s`", k.Release, UML)
	}
	return nil
}

// cpuMHz is the clock of this machine's CPU as Linux reports it, or a guess if it doesn't.
func cpuMHz() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "cpu MHz" {
			return strings.TrimSpace(value)
		}
	}
	return "1000"
}
