package fakeverbs

import "github.com/goverbs/goverbs/mmap"

// MapPage maps registers of the device's. The model sees each store to them.
func (k *Kernel) MapPage(key int64, length int) (*mmap.Page, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fault("MMAP"); err != nil {
		return nil, err
	}
	if err := k.Model.MapRegisters(k, key, length); err != nil {
		return nil, err
	}
	r, err := mmap.Wrap(make([]byte, RoundUp(length)))
	if err != nil {
		return nil, err
	}
	return mmap.NewPage(r, k.stored(key))
}

// stored has the model see the stores of a page, first how each is made and then what it stores.
func (k *Kernel) stored(key int64) func(mmap.Store) {
	w, _ := k.Model.(watcher)
	c, _ := k.Model.(copier)
	return func(s mmap.Store) {
		k.mu.Lock()
		defer k.unlock()
		if !k.listens() {
			return
		}
		if w != nil {
			w.Watch(key, s)
		}
		switch s.Kind {
		case mmap.StorePlain, mmap.StoreWC:
			k.Model.Store(k, key, s.Offset, s.Size, s.Value)
		case mmap.StoreCopy:
			if c != nil {
				c.Copy64(key, s.Offset, *s.Bytes)
			}
		}
	}
}

// Store is a store of 4 or 8 bytes to the registers that are mapped at a key.
func (k *Kernel) Store(key int64, offset, size int, value uint64) {
	k.mu.Lock()
	defer k.unlock()
	if k.listens() {
		k.Model.Store(k, key, offset, size, value)
	}
}

// listens tells whether stores get to the device. What a program stores after its device is
// gone, the kernel has go to memory of no meaning.
func (k *Kernel) listens() bool { return !k.closed && !k.isGone() }

// copier is a model that takes copies of whole requests, 64 bytes after 64 bytes.
type copier interface {
	Copy64(key int64, offset int, b [64]byte)
}

// Copy is a store of 64 bytes to the registers that are mapped at a key.
func (k *Kernel) Copy(key int64, offset int, b [64]byte) {
	k.mu.Lock()
	defer k.unlock()
	if c, ok := k.Model.(copier); ok && k.listens() {
		c.Copy64(key, offset, b)
	}
}

// watcher is a model that looks at the barriers of stores, as far as these are seen.
type watcher interface {
	Watch(key int64, s mmap.Store)
}
