package headers

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// enumsFile holds the enums that cross the boundary as plain numbers although no uapi header defines them.
const enumsFile = "kernel_enums.h"

// kernelEnums are those enums, by the kernel's own header under include/rdma.
var kernelEnums = []struct{ header, names string }{
	{"ib_verbs.h", "ib_event_type ib_wc_status ib_wc_opcode ib_wc_flags ib_send_flags ib_cq_notify_flags ib_cq_attr_mask " +
		"ib_srq_attr_mask ib_qp_attr_mask ib_qp_state ib_mig_state ib_mw_type ib_mr_rereg_flags ib_sig_type ib_atomic_cap " +
		"ib_odp_general_cap_bits ib_odp_transport_cap_bits ib_mtu ib_port_state ib_port_phys_state ib_port_width ib_port_speed " +
		"rdma_link_layer ib_rate ib_rnr_timeout"},
	{"rdma_cm.h", "rdma_cm_event_type"},
	{"ib_cm.h", "ib_cm_rej_reason"},
}

// enums cuts the enums out of the kernel's headers in dir: as a whole, those do not compile in user space.
func enums(dir string) ([]byte, error) {
	var b bytes.Buffer
	for _, k := range kernelEnums {
		text, err := os.ReadFile(filepath.Join(dir, k.header))
		if err != nil {
			return nil, err
		}
		for name := range strings.FieldsSeq(k.names) {
			_, rest, ok := strings.Cut(string(text), "\nenum "+name+" {")
			body, _, closed := strings.Cut(rest, "};")
			if !ok || !closed {
				return nil, fmt.Errorf("%s has no enum %s", k.header, name)
			}
			fmt.Fprintf(&b, "enum %s {%s};\n", name, body)
		}
	}
	return b.Bytes(), nil
}
