package uverbs

import (
	"errors"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// family is a root with two children.
func family(t *testing.T) (root, first, second *object) {
	t.Helper()
	root, first, second = new(object), new(object), new(object)
	root.root("siw0", "siw")
	for _, n := range []*object{first, second} {
		if err := n.attach("PD", root); err != nil {
			t.Fatal(err)
		}
	}
	return root, first, second
}

// While the kernel is asked to destroy an object nothing can be made of it, nor moved
// to it.
func TestParentThatIsClosing(t *testing.T) {
	_, parent, other := family(t)
	child := new(object)
	if err := child.attach("MR", other); err != nil {
		t.Fatal(err)
	}
	err := parent.close(func() error {
		if err := new(object).attach("MR", parent); !errors.Is(err, verbs.ErrClosed) {
			t.Error("made of it:", err)
		}
		if err := child.move(other, parent, nothing); !errors.Is(err, verbs.ErrClosed) {
			t.Error("moved to it:", err)
		}
		return nil
	}, nothing)
	if err != nil {
		t.Error(err)
	}
	if err := other.close(nothing, nothing); !errors.Is(err, verbs.ErrInUse) {
		t.Error("a move that was refused changed the parent:", err)
	}
}

// An object that could not be destroyed is open: it can be used, and closed.
func TestDestroyRefused(t *testing.T) {
	_, n, _ := family(t)
	refused := errors.New("refused")
	if err := n.close(func() error { return refused }, nothing); !errors.Is(err, refused) {
		t.Error(err)
	}
	child := new(object)
	if err := child.attach("MR", n); err != nil {
		t.Error(err)
	}
	child.detach()
	if err := n.close(nothing, nothing); err != nil {
		t.Error(err)
	}
}

// A move that fails leaves the object with its old parent. Both are in use meanwhile.
func TestMove(t *testing.T) {
	_, from, to := family(t)
	child := new(object)
	if err := child.attach("MR", from); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	for _, c := range []struct {
		outcome      error
		inUse, freed *object
	}{{refused, from, to}, {nil, to, from}} {
		err := child.move(from, to, func() error {
			if from.users != 1 || to.users != 1 {
				t.Errorf("users %d and %d meanwhile", from.users, to.users)
			}
			return c.outcome
		})
		if err != c.outcome || c.inUse.users != 1 || c.freed.users != 0 {
			t.Errorf("%v: users %d and %d", err, c.inUse.users, c.freed.users)
		}
	}
}
