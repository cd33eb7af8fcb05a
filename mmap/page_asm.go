//go:build amd64 || arm64

package mmap

// The functions in page_amd64.s and page_arm64.s.

//go:noescape
func store32(to slotsStart, v uint32)

//go:noescape
func store64(to slotsStart, v uint64)

//go:noescape
func storeWC32(to slotsStart, v uint32)

//go:noescape
func storeWC64(to slotsStart, v uint64)

//go:noescape
func copy64(to slotsStart, from *[64]byte)

//go:noescape
func copyWC(to, from slotsStart, n int)

func startWC()

func fromDevice()
