//go:build vm && !race

package test

const raceDetector = false
