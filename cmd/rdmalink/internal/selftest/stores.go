package selftest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/goverbs/goverbs/verbs"
)

// longInline is the length of inline data that makes a request as long as the part of a register
// that mlx5 copies requests to.
const longInline = 188

// slot is the room for a write in the second end's memory.
const slot = 256

// inlinePair creates a pair with as much inline data as the provider has room for.
func (b *environment) inlinePair() (p *pair, err error) {
	for _, n := range []uint32{longInline, inline} {
		if p, err = b.pairWith(pairOptions{typ: verbs.QPTypeRC, inline: n}); err == nil || b.ctx.Err() != nil {
			break
		}
	}
	return p, err
}

// singles posts many writes, each alone: the processor writes the request, rings a doorbell and
// may copy the request to the device. Each write has data of its own, in a length of its own, so a
// request that the device reads too early, in part, or from an earlier lap of the queue, leaves
// wrong bytes. The memory is compared after each lap.
func (p *pair) singles(times int) error {
	from, to := &p.ends[0], &p.ends[1]
	longest := int(min(from.qp.Cap().MaxInline, longInline))
	want := make([]byte, depth*slot)
	ids := make([]uint64, 0, depth)
	for done := 0; done < times; done += len(ids) {
		n := min(depth, times-done)
		ids = ids[:0]
		clear(to.target(n * slot))
		clear(want)
		for i := range n {
			data := want[i*slot:][:1+(done+i*7)%longest]
			for k := 0; k < len(data); k += 8 {
				var word [8]byte
				binary.BigEndian.PutUint64(word[:], uint64(done+i)<<20|uint64(k)|1<<63)
				copy(data[k:], word[:])
			}
			wr := verbs.SendWR{WRID: p.id(), Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, Inline: data,
				RemoteAddr: to.mr.Addr() + half + uint64(i*slot), RKey: to.mr.RKey()}
			ids = append(ids, wr.WRID)
			if err := p.post(wr); err != nil {
				return err
			}
		}
		wcs, err := p.wait(from.qp.SendCQ(), n)
		if err != nil {
			return fmt.Errorf("behind %d posts: %w", done, err)
		}
		for i := range wcs {
			if wcs[i].WRID != ids[i] {
				return fmt.Errorf("behind %d posts: completion %d is of request %d, not %d", done, i, wcs[i].WRID, ids[i])
			}
		}
		if err := p.same("what single posts wrote", to.target(n*slot), want[:n*slot]); err != nil {
			return fmt.Errorf("behind %d posts: %w", done, err)
		}
	}
	return nil
}

func singlePosts(b *environment) (string, error) {
	p, err := b.inlinePair()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d posts, to %d bytes inline", b.posts, min(p.ends[0].qp.Cap().MaxInline, longInline)), p.singles(b.posts)
}

// manyPosts does the same from several goroutines at once, each with a pair of its own. Their
// queue pairs are more than the device has registers for one each.
func manyPosts(b *environment) (string, error) {
	const goroutines = 6
	pairs := make([]*pair, goroutines)
	for i := range pairs {
		var err error
		if pairs[i], err = b.inlinePair(); err != nil {
			return "", err
		}
	}
	var wg sync.WaitGroup
	failed := make([]error, goroutines)
	for i, p := range pairs {
		wg.Go(func() { failed[i] = p.singles(b.posts / goroutines) })
	}
	wg.Wait()
	return fmt.Sprintf("%d goroutines, %d queue pairs, %d posts", goroutines, 2*goroutines, b.posts/goroutines*goroutines), errors.Join(failed...)
}
