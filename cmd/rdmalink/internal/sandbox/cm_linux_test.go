package sandbox

import "testing"

// TestBothFamilies checks that a program can listen on a port for each address family, as targets of
// iSCSI do, and that both are taken then.
func TestBothFamilies(t *testing.T) {
	need(t, "python3")
	const program = `
import ctypes, socket, struct
cm = ctypes.CDLL("librdmacm.so.1", use_errno=True)
cm.rdma_create_event_channel.restype = ctypes.c_void_p
channel = ctypes.c_void_p(cm.rdma_create_event_channel())
def bind(address):
    id = ctypes.c_void_p()
    assert cm.rdma_create_id(channel, ctypes.byref(id), None, 0x106) == 0
    if len(address) > 16:
        assert cm.rdma_set_option(id, 0, 2, ctypes.byref(ctypes.c_int(1)), 4) == 0
    return cm.rdma_bind_addr(id, address) or cm.rdma_listen(id, 1)
four = struct.pack("=H", socket.AF_INET) + struct.pack(">H", 3260) + bytes(12)
six = struct.pack("=H", socket.AF_INET6) + struct.pack(">H", 3260) + bytes(24)
print(bind(four), bind(six), bind(four), bind(six))
`
	if out, err := inside(t, []string{"-n", "2"}, "python3", "-c", program); err != nil || out != "0 0 -1 -1\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
