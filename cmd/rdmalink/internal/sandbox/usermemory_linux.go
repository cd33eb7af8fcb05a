package sandbox

import (
	"encoding/binary"
	"syscall"
)

// userMemory is the memory of a process as a device accesses it. It implements
// fakeverbs.Memory. The kernel copies words for loads and stores. The system calls order
// them: a store is visible to the accesses after it.
type userMemory struct{ *process }

// Check checks for mappings without a gap.
func (m userMemory) Check(addr, length uint64) error {
	end := addr + length
	if end < addr {
		return syscall.EFAULT
	}
	for o := range m.mappings() {
		if o.from <= addr && addr < o.to && o.mode[0] == 'r' {
			addr = o.to
		}
	}
	if addr < end {
		return syscall.EFAULT
	}
	return nil
}

func (m userMemory) Read(addr uint64, b []byte) error  { return m.read(addr, b) }
func (m userMemory) Write(addr uint64, b []byte) error { return m.write(addr, b) }

func (m userMemory) Load32(addr uint64) (uint32, error) {
	var b [4]byte
	err := m.read(addr, b[:])
	return binary.NativeEndian.Uint32(b[:]), err
}

func (m userMemory) Store32(addr uint64, v uint32) error {
	return m.write(addr, binary.NativeEndian.AppendUint32(nil, v))
}

func (m userMemory) Load64(addr uint64) (uint64, error) {
	var b [8]byte
	err := m.read(addr, b[:])
	return binary.NativeEndian.Uint64(b[:]), err
}

func (m userMemory) Store64(addr uint64, v uint64) error {
	return m.write(addr, binary.NativeEndian.AppendUint64(nil, v))
}
