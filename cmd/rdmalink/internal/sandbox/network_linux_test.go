package sandbox

import (
	"strings"
	"testing"
)

// TestNetwork checks that a command in a network namespace finds the addresses of the hosts and can use TCP, and that
// nothing of what made that is left in its environment and rights.
func TestNetwork(t *testing.T) {
	need(t, "python3")
	const program = `
import fcntl, os, socket, struct
names = [name for _, name in socket.if_nameindex() if name in ("lo", "eth0")]
listener = socket.create_server(("198.51.100.2", 0))
socket.create_connection(listener.getsockname()).close()
socket.create_server(("127.0.0.1", 0))
ambient = [line.split()[1] for line in open("/proc/self/status") if line.startswith("CapAmb")]
print(sorted(names), int(ambient[0], 16), [name for name in os.environ if name.startswith("RDMALINK_SANDBOX")])
`
	out, err := inside(t, []string{"--netns", "-n", "2"}, "python3", "-c", program)
	needNamespaces(t, err)
	if err != nil || out != "['eth0', 'lo'] 0 []\n" {
		t.Errorf("%v\n%s", err, out)
	}
	need(t, "rping")
	out, err = inside(t, []string{"--netns", "-d", "siw"}, "sh", "-c", rpings(t, "rping -s", "rping -c -a 198.51.100.1"))
	if err != nil || len(pinged.FindAllString(out, -1)) != 2 {
		t.Errorf("%v\n%s", err, out)
	}
}

// needNamespaces skips a test that failed because whatever runs it forbids new namespaces, as containers do.
func needNamespaces(t *testing.T, err error) {
	t.Helper()
	if err != nil && strings.Contains(err.Error(), "forbids new network namespaces") {
		t.Skip(err)
	}
}
