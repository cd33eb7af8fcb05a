// Package kit is shared by the kernel tests, which have the build tag vm: it prepares
// the guest, creates links, runs programs, and finds leaks.
package kit
