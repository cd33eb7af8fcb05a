package fakeverbs

// Memory is the memory of the process that has the device open. A model reaches it
// through nothing else. All methods return EFAULT for what is not there, and ESRCH once the
// process has ended: it is not to blame then, and its file is about to be closed.
type Memory interface {
	// Check tells whether all of it is there.
	Check(addr, length uint64) error
	Read(addr uint64, b []byte) error
	// Write writes as devices do: aligned words that are few come at once.
	Write(addr uint64, b []byte) error

	// Words of rings and doorbell records, and operands of atomics: a load acquires, a
	// store releases. The address is a multiple of the word's size.
	Load32(addr uint64) (uint32, error)
	Store32(addr uint64, v uint32) error
	Load64(addr uint64) (uint64, error)
	Store64(addr uint64, v uint64) error
}
