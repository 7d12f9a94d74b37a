package fleet

import (
	"bytes"
	"encoding/hex"
	"hash/fnv"
	"slices"
	"strings"
)

// held is an object as an edge has it: enough to prove that it is the right one.
type held struct {
	uid  [16]byte
	sum  uint64
	kind kind
}

// kind is the type of an object in a byte.
type kind byte

const (
	kindNode kind = iota
	kindPod
	kindConfigMap
	kindSecret
	kindDevice
	kindModel
)

// kinds are the types as they stand in messages.
func (k kind) String() string {
	return []string{"node", "pod", "configmap", "secret", "device", "devicemodel"}[k]
}

func kindOf(word string) (kind, bool) {
	for k := kindNode; k <= kindModel; k++ {
		if k.String() == word {
			return k, true
		}
	}
	return 0, false
}

// pack makes 16 bytes of a UID; of one that is no UUID its hash.
func pack(uid string) (out [16]byte) {
	raw, err := hex.DecodeString(strings.ReplaceAll(uid, "-", ""))
	if err == nil && len(raw) == len(out) {
		return [16]byte(raw)
	}
	h := fnv.New128a()
	_, _ = h.Write([]byte(uid)) // a hash takes everything
	return [16]byte(h.Sum(nil))
}

func (e *edge) findLocked(uid [16]byte) (int, bool) {
	return slices.BinarySearchFunc(e.held, uid, func(h held, uid [16]byte) int { return bytes.Compare(h.uid[:], uid[:]) })
}

// holdLocked keeps an object; it says what it was: new, changed, or a duplicate.
func (e *edge) holdLocked(h held) string {
	i, ok := e.findLocked(h.uid)
	switch {
	case !ok:
		e.held = slices.Insert(e.held, i, h)
		if cap(e.held) > len(e.held)+4 {
			e.held = slices.Clip(slices.Clone(e.held)) // doubling would cost what the digest saves
		}
		return "new"
	case e.held[i] == h:
		return "duplicate"
	}
	e.held[i] = h
	return "changed"
}

func (e *edge) dropLocked(uid [16]byte) string {
	i, ok := e.findLocked(uid)
	if !ok {
		return "duplicate"
	}
	e.held = slices.Delete(e.held, i, i+1)
	return "deleted"
}
