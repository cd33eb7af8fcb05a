#!/bin/sh
# Writes what tshark says of each capture here: go test compares. It needs apt's tshark.
set -e
# The data of the two longest packets of siw.pcap was replaced by zeros, which compress.
cd "$(dirname "$0")"
fields=$(sed -n 's/^\t{"\([a-z_.0-9]*\)", ".*/\1/p' ../tshark_test.go)
for file in *.pcap; do
	tshark -r "$file" -T fields -E header=y -E occurrence=a $(for f in $fields; do printf ' -e %s' "$f"; done) > "${file%.pcap}.tsv"
done
