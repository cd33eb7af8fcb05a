package selftest

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/goverbs/goverbs/verbs"
)

// longInline is the length of inline data that makes a request as long as the part of a register
// that mlx5 copies requests to.
const longInline = 188

// slot is the room for a write in the second end's memory.
const slot = 256

// inlinePair creates a pair with as much inline data as the provider has room for.
func (b *bed) inlinePair() (p *pair, err error) {
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

func singlePosts(b *bed) (string, error) {
	p, err := b.inlinePair()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d posts, to %d bytes inline", b.posts, min(p.ends[0].qp.Cap().MaxInline, longInline)), p.singles(b.posts)
}

// manyPosts does the same from several goroutines at once, each with a pair of its own. Their
// queue pairs are more than the device has registers for one each.
func manyPosts(b *bed) (string, error) {
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

// attributes compares what the device says of a connected queue pair with what it was given.
func attributes(b *bed) (string, error) {
	if b.iwarp() {
		return "", none("iWARP's queue pairs are the connection manager's")
	}
	if b.dev.Info().Driver == verbs.DriverERDMA {
		return "", none("the kernel's driver for eRDMA keeps none but those of the connection")
	}
	p, err := b.pairWith(pairOptions{typ: verbs.QPTypeRC, tune: func(a *verbs.QPAttr) {
		a.Timeout, a.RetryCnt, a.RNRRetry, a.MinRNRTimer = 15, 5, 4, 13
	}})
	if err != nil {
		return "", err
	}
	for i := range p.ends {
		got, err := p.ends[i].qp.Query()
		if err != nil {
			return "", err
		}
		want := p.connected(i)
		for _, c := range []struct {
			name      string
			got, want any
		}{
			{"state", got.State, verbs.QPStateRTS},
			{"path MTU", got.PathMTU, cmp.Or(want.PathMTU, p.link.ActiveMTU)},
			{"peer's number", got.DestQPN, want.DestQPN},
			{"packet number of receives", got.RQPSN, want.RQPSN},
			{"packet number of sends", got.SQPSN, want.SQPSN},
			{"time-out", got.Timeout, want.Timeout},
			{"retry count", got.RetryCnt, want.RetryCnt},
			{"RNR retry count", got.RNRRetry, want.RNRRetry},
			{"RNR timer", got.MinRNRTimer, want.MinRNRTimer},
		} {
			if c.got != c.want {
				return "", fmt.Errorf("the %s of queue pair %d is %v, and was set to %v", c.name, p.ends[i].qp.Num(), c.got, c.want)
			}
		}
	}
	return "9 attributes of 2 queue pairs", nil
}

// replies answers datagrams to the address that their completion and header have.
func replies(b *bed) (string, error) {
	p, err := b.pair(verbs.QPTypeUD)
	if err != nil {
		return "", err
	}
	from, to := &p.ends[0], &p.ends[1]
	const size, times = 100, 5
	for range times {
		p.fill(from.source(size))
		p.fill(to.source(size))
		clear(from.target(size))
		if _, err := from.qp.PostRecv([]verbs.RecvWR{{WRID: p.id(), SGL: from.sgl(half-grh, size+grh, 1)}}); err != nil {
			return "", err
		}
		if err := p.postRecv(verbs.RecvWR{WRID: p.id(), SGL: to.sgl(half-grh, size+grh, 1)}); err != nil {
			return "", err
		}
		if err := p.send(verbs.SendWR{Opcode: verbs.OpSend, SGL: from.sgl(0, size, 1)}); err != nil {
			return "", err
		}
		wcs, err := p.wait(to.recvs, 1)
		if err != nil {
			return "", err
		}
		ah, err := p.pd.AHFromWC(p.port, &wcs[0], to.mem[half-grh:][:grh])
		if err != nil {
			return "", err
		}
		reply := verbs.SendWR{WRID: p.id(), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: to.sgl(0, size, 1), AH: ah, RemoteQPN: wcs[0].SrcQP, RemoteQKey: qkey}
		_, err = to.qp.PostSend([]verbs.SendWR{reply})
		if err := errors.Join(p.own("reply", err), ah.Close()); err != nil {
			return "", err
		}
		if wcs, err = p.wait(from.recvs, 1); err != nil {
			return "", err
		}
		if wcs[0].SrcQP != to.qp.Num() {
			return "", fmt.Errorf("the reply is of QP %d, not %d", wcs[0].SrcQP, to.qp.Num())
		}
		if err := p.same("a reply", from.target(size), slices.Clone(to.source(size))); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d datagrams and their replies", times), nil
}
