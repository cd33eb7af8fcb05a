package qpstates

import (
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/verbs"
)

// qp is a QP of this host.
type qp struct {
	Device string `json:"ifname"`
	Number uint32 `json:"lqpn"`
	Type   string `json:"type"`
	State  string `json:"state"`
	TID    uint32 `json:"pid,omitempty"` // named as in rdmalink resource
	Kernel string `json:"kernel,omitempty"`

	state verbs.QPState
}

func (q qp) owner() string {
	switch {
	case q.TID != 0:
		return fmt.Sprintf(" pid %d", q.TID)
	case q.Kernel != "":
		return fmt.Sprintf(" comm [%s]", q.Kernel)
	}
	return ""
}

// queuePairs returns the QPs of all devices, of one type only if name is not empty.
func queuePairs(m *host.Machine, name string) (all []qp, err error) {
	err = m.ForDevices("", func(d netlinkrdma.Device) error {
		for q, err := range m.RDMA.QPs(d.Index, nil) {
			if err != nil {
				return err
			}
			if name == "" || strings.EqualFold(q.Type.String(), name) {
				all = append(all, qp{d.Name, q.LQPN, q.Type.String(), q.State.String(), q.TID, q.Kernel, q.State})
			}
		}
		return nil
	})
	return all, err
}
