package archive

import (
	"math/bits"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// Root returns the root of the Merkle tree over the lines of sums, by RFC 6962: the hash
// of a leaf is that of a zero byte and the line, with its line feed.
func Root(sums string) Digest {
	return merkleRoot(strings.SplitAfter(strings.TrimSuffix(sums, "\n"), "\n"))
}

func merkleRoot(lines []string) Digest {
	if len(lines) == 1 {
		return Digest(tlog.RecordHash([]byte(strings.TrimSuffix(lines[0], "\n") + "\n")))
	}
	half := 1 << (bits.Len(uint(len(lines)-1)) - 1) // the largest power of two below the number of lines
	return Digest(tlog.NodeHash(tlog.Hash(merkleRoot(lines[:half])), tlog.Hash(merkleRoot(lines[half:]))))
}
