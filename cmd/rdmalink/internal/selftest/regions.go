package selftest

import (
	"bytes"
	"fmt"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// there writes to memory of the peer and reads it back.
func (p *pair) there(what string, addr uint64, rkey uint32, size int) error {
	from := &p.ends[0]
	p.fill(from.source(size))
	clear(from.target(size))
	if err := p.send(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: from.sgl(0, size, 1), RemoteAddr: addr, RKey: rkey}); err != nil {
		return fmt.Errorf("write to %s: %w", what, err)
	}
	if err := p.send(verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: from.sgl(half, size, 1), RemoteAddr: addr, RKey: rkey}); err != nil {
		return fmt.Errorf("read of %s: %w", what, err)
	}
	return p.same("what was written to "+what+" and read back", from.target(size), from.source(size))
}

// otherAddress addresses a region by numbers of its own.
func otherAddress(b *environment) (string, error) {
	p, err := b.pair(verbs.QPTypeRC)
	if err != nil {
		return "", err
	}
	const size = 3 * 4096
	for _, iova := range []uint64{0x4000, 0x123456789000} {
		memory := p.ends[1].mem[:size]
		mr, err := p.pd.RegMRAt(memory, iova, b.access()&^verbs.AccessMWBind)
		if err != nil {
			return "", err
		}
		if err := p.there(fmt.Sprintf("a region at %#x", iova), iova+100, mr.RKey(), size-100); err != nil {
			return "", err
		}
		if err := p.same("a region", memory[100:], p.ends[0].source(size-100)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("2 regions of %d bytes", size), nil
}

// changedRights gives a region the right that it lacked.
func changedRights(b *environment) (string, error) {
	p, err := b.pair(verbs.QPTypeRC)
	if err != nil {
		return "", err
	}
	mr, err := p.another(verbs.AccessLocalWrite)
	if err != nil {
		return "", err
	}
	access := verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead
	if err := mr.Rereg(&uverbs.ReregOptions{Access: &access}); err != nil {
		return "", err
	}
	if err := p.there("the region", mr.Addr(), mr.RKey(), 4096); err != nil {
		return "", err
	}
	return "4096 bytes", p.same("the region", mr.Bytes(), p.ends[0].source(4096))
}

// noMemory sends from the region that has none: zeros arrive.
func noMemory(b *environment) (string, error) {
	p, err := b.pair(verbs.QPTypeRC)
	if err != nil {
		return "", err
	}
	null, err := p.pd.AllocNullMR()
	if err != nil {
		return "", err
	}
	from, to := &p.ends[0], &p.ends[1]
	const size, gap = 100, 40
	p.fill(from.source(size))
	p.fill(to.target(size))
	want := bytes.Clone(from.source(size))
	clear(want[20:][:gap])
	wr := p.write()
	wr.SGL = []verbs.SGE{from.mr.SGE(0, 20), null.SGE(0, gap), from.mr.SGE(20+gap, size-20-gap)}
	if err := p.send(wr); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d zeros between %d bytes", gap, size-gap), p.same("data with a gap", to.target(size), want)
}

// deviceMemory copies to memory of the device and back, and lets peers use it.
func deviceMemory(b *environment) (string, error) {
	if b.attr.MaxDMSize == 0 {
		return "", none("the device has no memory for programs")
	}
	p, err := b.pair(verbs.QPTypeRC)
	if err != nil {
		return "", err
	}
	size := int(min(b.attr.MaxDMSize, 2048))
	dm, err := b.dev.AllocDM(size, 0)
	if err != nil {
		return "", err
	}
	b.keep(dm.Close)
	from := &p.ends[0]
	data := make([]byte, size)
	for _, n := range []int{4, 60, 64, 68, size} {
		p.fill(data[:n])
		if _, err := dm.WriteAt(data[:n], int64(size-n)); err != nil {
			return "", err
		}
		got := make([]byte, n)
		if _, err := dm.ReadAt(got, int64(size-n)); err != nil {
			return "", err
		}
		if !bytes.Equal(got, data[:n]) {
			return "", differ("the device's memory", got, data[:n])
		}
	}
	mr, err := p.pd.RegDM(dm, 0, size, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
	if err != nil {
		return "", err
	}
	b.keep(mr.Close)
	if err := p.there("the device's memory", 0, mr.RKey(), size); err != nil {
		return "", err
	}
	if _, err := dm.ReadAt(data, 0); err != nil {
		return "", err
	}
	if !bytes.Equal(data, from.source(size)) {
		return "", differ("what a peer wrote to the device's memory", data, from.source(size))
	}
	wr := p.write() // from the device's memory
	wr.SGL = []verbs.SGE{mr.SGE(0, size)}
	clear(p.ends[1].target(size))
	if err := p.send(wr); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d of %d bytes", size, b.attr.MaxDMSize), p.same("a write from the device's memory", p.ends[1].target(size), data)
}

// onDemand lets a peer use memory that no program has touched, in regions whose pages are not
// pinned: each page is missing when the device first wants it.
func onDemand(b *environment) (string, error) {
	const needs = verbs.ODPWrite | verbs.ODPRead
	switch {
	case b.attr.ODP.General&verbs.ODPSupport == 0:
		return "", none("the device has no on-demand paging")
	case b.attr.ODP.RC&needs != needs:
		return "", none("RC has no on-demand paging for WRITE and READ")
	}
	p, err := b.pair(verbs.QPTypeRC)
	if err != nil {
		return "", err
	}
	const size, times = 256 << 10, 4
	access := verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessOnDemand
	for range times {
		memory := make([]byte, size)
		mr, err := p.pd.RegMR(memory, access)
		if err != nil {
			return "", err
		}
		if err := p.there("memory on demand", mr.Addr(), mr.RKey(), size); err != nil {
			return "", err
		}
		if err := p.same("memory on demand", memory, p.ends[0].source(size)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d regions of %d KiB", times, size>>10), nil
}

// wholeSpace uses the region that is all of the process's memory.
func wholeSpace(b *environment) (string, error) {
	if b.attr.ODP.General&verbs.ODPImplicit == 0 {
		return "", none("the device has no region of all memory")
	}
	p, err := b.pair(verbs.QPTypeRC)
	if err != nil {
		return "", err
	}
	all, err := p.pd.RegImplicitMR(verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead)
	if err != nil {
		return "", err
	}
	const size = 64 << 10
	to := &p.ends[1]
	if err := p.there("the process's memory", to.mr.Addr()+half, all.RKey(), size); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d KiB", size>>10), p.same("the process's memory", to.target(size), p.ends[0].source(size))
}
