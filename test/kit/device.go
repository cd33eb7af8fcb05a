//go:build vm

package kit

import (
	"os"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
)

// Descriptors counts the open descriptors of this process.
func Descriptors(t *testing.T) int {
	t.Helper()
	return len(Must(os.ReadDir("/proc/self/fd"))(t))
}

// InfoOf returns the listed device of a name.
func InfoOf(t *testing.T, name string) uverbs.DeviceInfo {
	t.Helper()
	for _, info := range Must(uverbs.Devices())(t) {
		if info.Name == name {
			return info
		}
	}
	t.Fatal("no " + name)
	return uverbs.DeviceInfo{}
}

// Devinfo returns the output of rdma-core's ibv_devinfo -v for a device, by field.
func Devinfo(t *testing.T, device string) map[string]string {
	t.Helper()
	fields := make(map[string]string)
	for _, line := range strings.Split(Sh(t, "ibv_devinfo -v -d "+device), "\n") {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = strings.TrimSpace(value)
		}
	}
	return fields
}
