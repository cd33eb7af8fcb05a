//go:build amd64 || arm64

package mmap

// The functions in page_amd64.s and page_arm64.s. They check the page, too, and pass the stores that they can't perform
// to a function below. The methods of Page have one call this way, so they are inlined.

func store32(p *Page, offset int, v uint32)

func store64(p *Page, offset int, v uint64)

func storeWC32(p *Page, offset int, v uint32)

func storeWC64(p *Page, offset int, v uint64)

//go:noescape
func copy64(p *Page, offset int, from *[64]byte)

//go:noescape
func copyWC(p *Page, offset int, from slotsStart, n int)

func startWC(p *Page)

func fromDevice()

//lint:ignore U1000 assembly jumps there
func report32(p *Page, offset int, v uint32) { p.reportWord(StorePlain, offset, 4, uint64(v)) }

//lint:ignore U1000 assembly jumps there
func report64(p *Page, offset int, v uint64) { p.reportWord(StorePlain, offset, 8, v) }

//lint:ignore U1000 assembly jumps there
func reportWC32(p *Page, offset int, v uint32) { p.reportWord(StoreWC, offset, 4, uint64(v)) }

//lint:ignore U1000 assembly jumps there
func reportWC64(p *Page, offset int, v uint64) { p.reportWord(StoreWC, offset, 8, v) }

//lint:ignore U1000 assembly jumps there
func reportStart(p *Page) { p.report(Store{Kind: StartWC}, nil) }

//lint:ignore U1000 assembly jumps there
func report512(p *Page, offset int, from *[64]byte) {
	p.report(Store{Kind: StoreCopy, Offset: offset, Size: 64}, from)
}

//lint:ignore U1000 assembly jumps there
func reportLines(p *Page, offset int, from slotsStart, n int) {
	p.reportCopies(offset, bytesFrom(from, n))
}
