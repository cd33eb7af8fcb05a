package efa

import (
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakeefa "github.com/goverbs/goverbs/internal/fakeverbs/efa"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/verbs"
)

// TestMutations changes each byte that crosses the seam, each doorbell and the order of
// stores, one at a time, and compares the list of checks that notice with the golden file.
func TestMutations(t *testing.T) {
	m := providertest.Mutations{
		Bits:        bitsOf,
		Stores:      storesOf,
		Why:         why,
		Reasons:     reasons,
		RecordBytes: 8,
		Noticed:     [4]int{628, 606, 0, 256},
	}
	for _, o := range tours {
		m.Tours = append(m.Tours, providertest.Tour{
			Start: func(t testing.TB, change func(*fakeverbs.Kernel)) (*providertest.Pair, func()) {
				o.kernel, o.strict = change, true
				p := newPair(t, o.pairOptions)
				return p.Pair, func() { p.Tour(o.script) }
			},
			Labels: func() func(*fakeverbs.Crossing) string { return label },
			Keep: func(site string) bool {
				return o.keep == nil || slices.ContainsFunc(o.keep, func(k string) bool { return strings.HasPrefix(site, k) })
			},
		})
	}
	m.Test(t)
}

// tours are short traffic of each type.
var tours = []struct {
	pairOptions
	script *providertest.Script
	keep   []string // beginnings of the names of its sites; nil is all
}{
	{pairOptions{typ: verbs.QPTypeSRD, inline: longInline}, &script, nil},
	{pairOptions{typ: verbs.QPTypeSRD, device: fakeefa.Options{Kernel: fakeefa.Linux72}}, &shortScript, []string{"sqe SEND of 64"}},
	{pairOptions{typ: verbs.QPTypeSRD, inline: longInline, device: fakeefa.Options{MaxTxBatch: 4, MinSQWR: 4}}, &script, []string{"in GET_CONTEXT", "out GET_CONTEXT"}},
}

// label names a crossing by its purpose.
func label(c *fakeverbs.Crossing) string {
	switch c.Kind {
	case fakeverbs.CallIn, fakeverbs.CallOut:
		return c.Call
	case fakeverbs.EntrySQE:
		name := [...]string{"SEND", "READ", "WRITE", "", "", "", "", "", "", "", "", "", "", "", "", ""}[c.Bytes[2]&15]
		if c.Bytes[2]&0x10 != 0 {
			name += "_IMM"
		}
		if c.Bytes[2]&0x20 != 0 {
			name += " inline"
		}
		if len(c.Bytes) == wqeSize {
			name += " of 64"
		}
		return name
	case fakeverbs.EntryCQE:
		name := [...]string{"?", "of sends", "of receives", "?"}[c.Bytes[3]>>1&3]
		if c.Bytes[3]&8 != 0 {
			name += " with immediate data"
		}
		return name + [...]string{"", " READ", " WRITE", "", "", "", "", ""}[c.Bytes[3]>>4&7]
	case fakeverbs.Doorbell:
		if c.Value>>16 != 0 {
			return "that arms"
		}
		return "at " + string(rune('a'+c.Offset/8%26))
	}
	return ""
}

// bitsOf are all of an entry's first bytes, and one of each other byte.
func bitsOf(s *providertest.Site, i int) []int {
	if i < 4 && s.First {
		return []int{0, 1, 2, 3, 4, 5, 6, 7}
	}
	return []int{i * 3 % 8}
}

// storesOf changes how a doorbell is stored to, and the order of stores to memory.
func storesOf(s *providertest.Site) []providertest.Change {
	switch s.Kind {
	case fakeverbs.Doorbell:
		return []providertest.Change{
			providertest.NotMade,
			{What: "has 8 bytes", Do: func(_ *providertest.Pair, c *fakeverbs.Crossing) { c.Size = 8 }},
			{What: "is made 8 bytes further", Do: func(_ *providertest.Pair, c *fakeverbs.Crossing) { c.Offset += 8 }},
		}
	case fakeverbs.EntrySQE, fakeverbs.EntryRQE:
		return []providertest.Change{providertest.WrittenLate}
	}
	return nil
}

var because = providertest.Because

// reasons explain why a mutation can't be noticed.
var reasons = []providertest.Reason{
	because("in GET_CONTEXT", 0, 0, "234567", "bits that no kernel knows, which it ignores"),
	because("in GET_CONTEXT", 1, 7, "", "bits that no kernel knows, which it ignores"),
	because("out GET_CONTEXT", 0, 3, "", "a mask of fields, which are zero where a kernel lacks them"),
	because("out GET_CONTEXT", 4, 7, "", "other commands, of later kernels"),
	because("out GET_CONTEXT", 10, 11, "", "the limit of older kernels, which the newer one replaces"),
	because("out GET_CONTEXT", 12, 15, "", "a limit of queues that are larger than this one"),
	because("out GET_CONTEXT", 16, 19, "", "limits of batches and of queues, above those here"),
	because("out GET_CONTEXT", 20, 23, "", "a limit of inline data above what is sent here, and padding"),
	because("out QUERY_DEVICE", 0, 3, "", "a mask of fields, which are zero where a kernel lacks them"),
	because("out QUERY_DEVICE", 4, 19, "", "limits above what is used here, which the kernel checks; TestAbilities reads the last"),
	because("out QUERY_DEVICE", 20, 23, "", "capabilities that are not used here; TestAbilities has each"),
	because("out CQ_CREATE", 0, 7, "", "padding, and bits of later kernels"),
	because("out CQ_CREATE", 24, 27, "", "the CQ's number, which nothing here needs"),
	because("in QP_CREATE", 16, 18, "", "an ability that is not used here, and a service level"),
	because("out QP_CREATE", 0, 3, "", "bits of later kernels"),
	because("out QP_CREATE", 56, 63, "", "the parts of the CQs, all of which are polled, and padding"),
	because("out CREATE_AH", 0, 3, "", "bits of later kernels"),
	because("out CREATE_AH", 6, 7, "", "padding"),
	because("store", 4, 7, "", "a store has 4 bytes"),
	because("store at a", 0, 0, "", "completions that were read: the next store says as much"),
	because("cqe of receives", 3, 3, "4", "the operation is SEND, and READ means the same"),
	because("cqe of receives", 12, 15, "", "immediate data, where there is none"),
	because("cqe of receives", 16, 31, "", "the length of a WRITE or the GID of an unknown sender, and neither is here"),
	because("cqe of sends", 12, 31, "", "reserved"),
}

// why explains changes of stores that nobody notices.
func why(site, change string) string {
	if site == "store at a" && change == providertest.NotMade.What {
		return "completions that were read: the next store says as much"
	}
	return ""
}
