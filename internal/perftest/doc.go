// Package perftest speaks with the ib_{send,write,read,atomic}_{lat,bw} of
// perftest 4.5 (Debian 12), as their client or server: everything that the two
// ends say to each other besides the traffic that they measure. No verbs here.
package perftest
