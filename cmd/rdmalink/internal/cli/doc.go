// Package cli has what the commands of rdmalink share on the way in and out: usage
// errors, options as getopt_long takes them, and output as text or JSON.
package cli
