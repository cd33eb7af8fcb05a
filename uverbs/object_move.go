package uverbs

import (
	"slices"

	"github.com/goverbs/goverbs/verbs"
)

// move makes o a user of to instead of from, if f agrees. Both are kept open
// meanwhile.
func (o *object) move(from, to *object, f func() error) error {
	if from == to {
		return f()
	}
	if err := o.join(to); err != nil {
		return err
	}
	err := f()
	o.graph.Lock()
	defer o.graph.Unlock()
	left := from
	if err != nil {
		left = to
	}
	o.leaveLocked(left)
	return err
}

func (o *object) leaveLocked(parent *object) {
	parent.users--
	i := slices.Index(o.parents, parent)
	o.parents = slices.Delete(o.parents, i, i+1)
}

func (o *object) join(p *object) error {
	o.graph.Lock()
	defer o.graph.Unlock()
	if p.graph != o.graph || p.stage != stageOpen {
		return o.fail("change", verbs.ErrClosed, p.name()+" is closed or belongs to another device")
	}
	o.lean(p)
	return nil
}

// lean makes o a user of one more.
func (o *object) lean(parent *object) {
	o.parents = append(o.parents, parent)
	parent.users++
}
