package fakeverbs

type fault struct {
	call string
	skip int
	err  error
}

// Fail makes one call fail with err: the next one of that name, or a later one
// after skipping some. Names are those of the tables in this package, "MMAP" and
// "EVENTS"; "" is any call. Faults queue up.
func (k *Kernel) Fail(call string, skip int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.faults = append(k.faults, fault{call, skip, err})
}

// Spare takes back the failures that have not come, and says how many they are.
func (k *Kernel) Spare() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(k.faults)
	k.faults = nil
	return n
}

// Calls is how often a call was made, well-formed and not closed.
func (k *Kernel) Calls(call string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls[call]
}

func (k *Kernel) fault(call string) error {
	k.calls[call]++
	if k.Refuse != nil {
		if err := k.Refuse(call); err != nil {
			return err
		}
	}
	for i := range k.faults {
		f := &k.faults[i]
		if f.call != call && f.call != "" {
			continue
		}
		if f.skip--; f.skip < 0 {
			err := f.err
			k.faults = append(k.faults[:i], k.faults[i+1:]...)
			return err
		}
	}
	return nil
}
