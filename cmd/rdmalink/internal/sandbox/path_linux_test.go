package sandbox

import "testing"

func TestCovered(t *testing.T) {
	for path, want := range map[string]bool{
		"/dev/infiniband":                      true,
		"/dev/infiniband/uverbs0":              true,
		"/dev/infinibandits":                   false,
		"/sys/class/infiniband/rxe0/node_type": true,
		"/sys/class/infiniband_verbs":          true,
		"/sys/class/misc/rdma_cm/abi_version":  true,
		"/sys/class/misc/rdma_cma":             false,
		"/sys/class/misc":                      false,
		"/usr/include/infiniband/verbs.h":      false,
		"/lib/x86_64-linux-gnu/librdmacm.so.1": false,
		"/":                                    false,
		"":                                     false,
		"/sys/devices/virtual/infiniband_verbs/x/dev": true,
	} {
		if got := covered(path, false); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
}

func TestHostNumber(t *testing.T) {
	for value, want := range map[string]int{"": 1, "2": 2, "3": 3, "4": 0, "0": 0, "-1": 0, "two": 0} {
		if got, err := hostNumber(value, 3); (err != nil) != (want == 0) || err == nil && got != want {
			t.Errorf("%q: %d, %v, want %d", value, got, err, want)
		}
	}
}

func TestDescriptorFlags(t *testing.T) {
	const info = "pos:\t0\nflags:\t02104002\nmnt_id:\t15\n"
	if got := descriptorFlags(info); got != 0o2104002 {
		t.Errorf("%#o", got)
	}
}
