package fakefabric

// parked is a send that a device has taken and not carried out.
type parked struct {
	from end
	work work
}

// Pause has nothing carried until resume is called, which the test must do. stuck is closed
// when something was sent. A queue pair that fails meanwhile loses its sends.
func (f *Fabric) Pause() (stuck <-chan struct{}, resume func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paused = make(chan struct{})
	return f.paused, f.resume
}

func (f *Fabric) resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.waiting {
		f.deliver(f.waiting[i].from, &f.waiting[i].work)
	}
	f.paused, f.waiting = nil, nil
}

// park keeps a send if the fabric pauses. The lock is held.
func (f *Fabric) park(from end, w *work) bool {
	if f.paused == nil {
		return false
	}
	if len(f.waiting) == 0 {
		close(f.paused)
	}
	f.waiting = append(f.waiting, parked{from, *w})
	return true
}
