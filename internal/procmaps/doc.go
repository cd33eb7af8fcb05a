// Package procmaps looks up the mappings of processes, as /proc/PID/maps lists them, and decides what a device
// may do with their pages.
package procmaps
