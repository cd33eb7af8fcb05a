package msg

// signal wakes one goroutine: the one that waits or, if none waits, the next one
// that will.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// fifo is a queue. It grows when it is full.
type fifo[T any] struct {
	ring       []T
	next, size int
}

func newFIFO[T any](room int) fifo[T] { return fifo[T]{ring: make([]T, room)} }

func (f *fifo[T]) len() int { return f.size }

func (f *fifo[T]) push(v T) {
	if f.size == len(f.ring) {
		f.ring = append(append(make([]T, 0, 2*f.size), f.ring[f.next:]...), f.ring[:f.next]...)
		f.ring, f.next = f.ring[:cap(f.ring)], 0
	}
	f.ring[(f.next+f.size)%len(f.ring)] = v
	f.size++
}

// removeFunc removes the elements for which is returns true.
func (f *fifo[T]) removeFunc(is func(T) bool) {
	for range f.size {
		v := *f.head()
		if f.pop(); !is(v) {
			f.push(v)
		}
	}
}

func (f *fifo[T]) head() *T { return &f.ring[f.next] }

func (f *fifo[T]) pop() {
	f.next, f.size = (f.next+1)%len(f.ring), f.size-1
}
