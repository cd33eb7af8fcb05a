package uverbs_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
)

// dmSharing has device memory as well, and what the other process imports of it.
type dmSharing struct {
	*sharing
	dm, same *uverbs.DM
}

func newDMSharing(t testing.TB) *dmSharing {
	t.Helper()
	s := &dmSharing{sharing: newSharing(t)}
	s.dm = must[*uverbs.DM](t)(s.maker.AllocDM(100, 0))
	s.same = must[*uverbs.DM](t)(s.dev.ImportDM(s.dm.Handle()))
	t.Cleanup(func() { closeAll(t, s.same, s.dm) })
	return s
}

func TestImportDMEveryErrno(t *testing.T) {
	everyErrno(t, "mlx5_0", newDMSharing, []verb[*dmSharing]{
		{"ImportDM", []string{"DM_QUERY", "MMAP"}, "import DM on mlx5_0", func(s *dmSharing) error { return closing(s.dev.ImportDM(s.dm.Handle())) }},
	})
}

// TestImportDM: two processes see the same memory of the device's. It stays when one that
// imported it closes it.
func TestImportDM(t *testing.T) {
	s := newDMSharing(t)
	must[int](t)(s.dm.WriteAt([]byte("both see this..."), 20))
	got := make([]byte, 16)
	if must[int](t)(s.same.ReadAt(got, 20)); string(got) != "both see this..." || s.same.Len() != 100 {
		t.Errorf("%q of %d bytes", got, s.same.Len())
	}
	if err := s.same.Close(); err != nil || len(s.k.DMs()) != 1 {
		t.Errorf("%v; the kernel has %d DMs", err, len(s.k.DMs()))
	}
	if _, err := s.dev.ImportDM(s.dm.Handle() + 1000); !errors.Is(err, syscall.ENOENT) || !strings.Contains(err.Error(), "no such object") {
		t.Error(err)
	}
}
