package rdmacm

import (
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
)

// What Prepare gives goes to the peer in place of what the Config has, which other
// connections share and nobody changes.
func TestSetPrivateData(t *testing.T) {
	w := newWorld(t, aRXE)
	cfg := &Config{PrivateData: []byte("of all"), Prepare: func(c *Conn) error {
		c.SetPrivateData([]byte("of this one"))
		return nil
	}}
	for _, want := range []string{"of this one", "of all"} {
		c, err := DialAddrPort(t.Context(), addr4, cfg)
		if err != nil {
			t.Fatal(err)
		}
		p := body[abi.RdmaUcmConnect](w.cms[0], abi.RDMA_USER_CM_CMD_CONNECT).ConnParam
		if got := string(p.PrivateData[:p.PrivateDataLen]); got != want {
			t.Errorf("%q went out, want %q", got, want)
		}
		closeConn(t, c)
		w.empty()
		cfg.Prepare = nil
	}
	if string(cfg.PrivateData) != "of all" {
		t.Errorf("%q", cfg.PrivateData)
	}
}
