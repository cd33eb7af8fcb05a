// Package cli is the command framework of rdmalink: the table of commands with its
// dispatch, help, usage errors, completion and manual page; the words, options and
// filters of iproute2's commands; options as getopt_long parses them; and output
// as text or JSON.
package cli
