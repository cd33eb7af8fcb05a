package fakeverbs

import (
	"iter"
	"maps"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/ioctl"
)

// object is what a handle stands for.
type object struct {
	kind string
	uses []*object
	refs int
	body any
	free func()
}

func (k *Kernel) Add(kind string, body any, free func(), uses ...*object) uint32 {
	h := k.handles.Take(func(h uint32) bool { return k.objects[h] != nil })
	k.objects[h] = &object{kind: kind, body: body, free: free, uses: uses}
	for _, u := range uses {
		u.refs++
	}
	return h
}

func (k *Kernel) Remove(kind string, handle uint32) error {
	o, err := k.Find(kind, handle)
	if err != nil {
		return err
	}
	if o.refs > 0 {
		return syscall.EBUSY
	}
	for _, u := range o.uses {
		u.refs--
	}
	o.free()
	delete(k.objects, handle)
	k.handles.Free(handle)
	return nil
}

func (k *Kernel) Find(kind string, handle uint32) (*object, error) {
	o := k.objects[handle]
	if o == nil || o.kind != kind {
		return nil, syscall.ENOENT
	}
	return o, nil
}

func find[T any](k *Kernel, kind string, handle uint32) (*object, T, error) {
	o, err := k.Find(kind, handle)
	if err != nil {
		var none T
		return nil, none, err
	}
	return o, o.body.(T), nil
}

// FindIn finds the object that an attribute names.
func FindIn[T any](k *Kernel, kind string, r *ioctl.Request, id uint16) (*object, T, error) {
	h, ok := r.Value(id)
	if !ok {
		var none T
		return nil, none, syscall.ENOENT
	}
	return find[T](k, kind, uint32(h))
}

// Objects yields all objects of a kind's type, in no order. The lock is held.
func Objects[T any](k *Kernel) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, o := range k.objects {
			if b, ok := o.body.(T); ok && !yield(b) {
				return
			}
		}
	}
}

// bodies returns all objects of a kind's type, lowest handle first.
func bodies[T any](k *Kernel) []T {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []T
	for _, h := range slices.Sorted(maps.Keys(k.objects)) {
		if b, ok := k.objects[h].body.(T); ok {
			all = append(all, b)
		}
	}
	return all
}

func nothing() {}
