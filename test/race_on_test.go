//go:build vm && race

package test

const raceDetector = true
