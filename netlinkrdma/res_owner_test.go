package netlinkrdma_test

import (
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/goverbs/goverbs/netlinkrdma"
)

func TestOwnerPIDIn(t *testing.T) {
	proc := fstest.MapFS{
		"25/status": {Data: []byte("Name:\treader\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t7\nNgid:\t0\nPid:\t25\n")},
		"26/status": {Data: []byte("Name:\tTgid: 9\n")},
		"27":        {Mode: fs.ModeDir},
	}
	for name, c := range map[string]struct {
		owner     netlinkrdma.Owner
		pid       int
		fails     bool
		noProcess bool
	}{
		"a thread":        {netlinkrdma.Owner{TID: 25}, 7, false, false},
		"no Tgid":         {netlinkrdma.Owner{TID: 26}, 0, true, false},
		"ended meanwhile": {netlinkrdma.Owner{TID: 27}, 0, true, true},
		"not known":       {netlinkrdma.Owner{}, 0, true, true},
		"a module":        {netlinkrdma.Owner{Kernel: "ib_core"}, 0, true, true},
	} {
		pid, err := c.owner.PIDIn(proc)
		if pid != c.pid || (err != nil) != c.fails || errors.Is(err, netlinkrdma.ErrNoProcess) != c.noProcess {
			t.Errorf("%s: %d, %v", name, pid, err)
		}
	}
}
