//go:build race

package fakeverbs

const raceEnabled = true
