package hub

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// counts is a number for each kind of request, written "100,lease=node-limit,podstatus=1": the
// number without a kind is that of all other kinds.
type counts struct {
	other  int
	byKind map[string]int // perNodeLimit: as many as --node-limit
}

const (
	perNodeLimit  = -1
	nodeLimitWord = "node-limit"
)

var errCounts = errors.New("want NUMBER or KIND=NUMBER,... with numbers above 0")

// of returns the number of a kind.
func (c *counts) of(kind string, nodeLimit int) int {
	n, ok := c.byKind[kind]
	switch {
	case !ok:
		return c.other
	case n == perNodeLimit:
		return nodeLimit
	}
	return n
}

// String writes the numbers as Set reads them.
func (c *counts) String() string {
	out := []string{strconv.Itoa(c.other)}
	for _, kind := range slices.Sorted(maps.Keys(c.byKind)) {
		text := strconv.Itoa(c.byKind[kind])
		if c.byKind[kind] == perNodeLimit {
			text = nodeLimitWord
		}
		out = append(out, kind+"="+text)
	}
	return strings.Join(out, ",")
}

// Set reads the numbers of kinds, which are added to those that are set, or the number of all
// kinds, which takes their place.
func (c *counts) Set(text string) error {
	got := counts{c.other, maps.Clone(c.byKind)}
	for part := range strings.SplitSeq(text, ",") {
		kind, number, named := strings.Cut(part, "=")
		if !named {
			kind, number = "", part
		}
		n, err := strconv.Atoi(number)
		if number == nodeLimitWord {
			n, err = perNodeLimit, nil
		}
		known := kind == "" || slices.Contains(handledTypes(), kind)
		if err != nil || !known || n < 1 && (n != perNodeLimit || kind == "") {
			return fmt.Errorf("%q: %w, of %s", part, errCounts, strings.Join(handledTypes(), ", "))
		}
		if kind == "" {
			got = counts{other: n}
			continue
		}
		if got.byKind == nil {
			got.byKind = map[string]int{}
		}
		got.byKind[kind] = n
	}
	*c = got
	return nil
}

// Type says what the flag takes.
func (c *counts) Type() string { return "NUMBERS" }

// handledTypes are the types of messages from edges that a hub does something about.
func handledTypes() []string {
	return []string{message.TypeNode, message.TypeNodePatch, message.TypeNodeStatus, message.TypeLease, message.TypePod, message.TypePodPatch, message.TypePodStatus,
		message.TypePodList, message.TypeConfigMap, message.TypeSecret, message.TypeToken, message.TypeTwin}
}
