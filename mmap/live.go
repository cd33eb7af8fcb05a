package mmap

import "runtime/pprof"

// LiveProfile names the runtime/pprof profile of regions not yet closed, with
// the stacks that made them:
//
//	pprof.Lookup(mmap.LiveProfile).WriteTo(os.Stderr, 1)
const LiveProfile = "github.com/goverbs/goverbs/mmap.Region"

var live = pprof.NewProfile(LiveProfile)

// Live is the number of regions not yet closed. A test main that finds it above
// zero has a leak, and [LiveProfile] says where it was made.
func Live() int { return live.Count() }

// track leaves out itself and the constructor, so that a stack starts at the caller.
func track(r *Region) *Region {
	live.Add(r, 2)
	return r
}

func untrack(r *Region) { live.Remove(r) }
