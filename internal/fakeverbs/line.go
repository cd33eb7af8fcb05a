package fakeverbs

// Line holds requests that wait. The oldest is taken in constant time, whatever the number of others.
type Line[T any] struct {
	all   []T
	first int // the oldest
}

// Waiting returns the requests, oldest first. They are valid until the next Push.
func (l *Line[T]) Waiting() []T { return l.all[l.first:] }

// Push adds a request.
func (l *Line[T]) Push(v T) {
	if len(l.all) == cap(l.all) && l.first > len(l.all)/2 { // use the memory of those that were taken
		n := copy(l.all, l.all[l.first:])
		clear(l.all[n:])
		l.all, l.first = l.all[:n], 0
	}
	l.all = append(l.all, v)
}

// Pop takes the oldest request. There must be one.
func (l *Line[T]) Pop() T {
	var none T
	v := l.all[l.first]
	l.all[l.first] = none
	if l.first++; l.first == len(l.all) {
		l.all, l.first = l.all[:0], 0
	}
	return v
}

// Clear drops all requests.
func (l *Line[T]) Clear() { *l = Line[T]{} }
