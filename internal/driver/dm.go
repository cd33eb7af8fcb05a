package driver

// AllocDM asks a provider for memory of the device's own.
type AllocDM struct {
	Call
	Length   uint64 // bytes
	LogAlign uint32 // its address is a multiple of 2 to the power of this
	// Handle is known after Do.
	Handle uint32
}

// ImportDM asks a provider to map memory of the device's that another process of the
// descriptor allocated.
type ImportDM struct {
	Memory
	Handle uint32
	Length uint64 // bytes; the provider sets it
}

// DM is how a program reaches memory of a device. Both methods may be called concurrently,
// and only with bytes that are inside. They refuse what the device can't do, such as an offset
// that is no multiple of 4, with EINVAL.
type DM interface {
	CopyTo(offset uint64, b []byte) error
	CopyFrom(b []byte, offset uint64) error
}
