package mlx5

import (
	"errors"
	"testing"

	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestTargetECE checks that an XRC target QP has the options that the device offers, and gets those
// that it asks for.
func TestTargetECE(t *testing.T) {
	const trigger, mellanox = 1 << 28, 0x15b3
	w := newWorld(t, nil)
	domain := providertest.Must[*uverbs.XRCD](t)(w.dev.OpenXRCD(nil, 0))
	qp := providertest.Must[*uverbs.QP](t)(domain.CreateQP())
	t.Cleanup(func() {
		if err := errors.Join(qp.Close(), domain.Close()); err != nil {
			t.Error(err)
		}
	})
	is := func(want uint32) {
		t.Helper()
		if e, err := qp.ECE(); err != nil || e != (verbs.ECE{VendorID: mellanox, Options: want}) {
			t.Errorf("%+v, %v, want %#x", e, err, want)
		}
	}
	is(trigger | fakemlx5.ECE)
	if err := qp.SetECE(verbs.ECE{VendorID: mellanox, Options: trigger | 0x81}); err != nil {
		t.Fatal(err)
	}
	if err := qp.Init(nil); err != nil {
		t.Fatal(err)
	}
	is(trigger | 1)
	if n, err := qp.PostSend([]verbs.SendWR{{}}); n != 0 || err == nil {
		t.Errorf("posted %d, %v", n, err)
	}
}
