//go:build amd64 || arm64

package mmap

// The functions in page_amd64.s and page_arm64.s. Those that store a word check the page, too, and
// pass what they can't store to a function below. The methods of Page have one call this way, so they are
// inlined.

func store32(p *Page, offset int, v uint32)

func store64(p *Page, offset int, v uint64)

func storeWC32(p *Page, offset int, v uint32)

func storeWC64(p *Page, offset int, v uint64)

//go:noescape
func copy64(to slotsStart, from *[64]byte)

//go:noescape
func copyWC(to, from slotsStart, n int)

func startWC()

func fromDevice()

func report32(p *Page, offset int, v uint32)   { p.reportWord(StorePlain, offset, 4, uint64(v)) }
func report64(p *Page, offset int, v uint64)   { p.reportWord(StorePlain, offset, 8, v) }
func reportWC32(p *Page, offset int, v uint32) { p.reportWord(StoreWC, offset, 4, uint64(v)) }
func reportWC64(p *Page, offset int, v uint64) { p.reportWord(StoreWC, offset, 8, v) }
