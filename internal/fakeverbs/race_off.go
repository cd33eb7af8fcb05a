//go:build !race

package fakeverbs

const raceEnabled = false
