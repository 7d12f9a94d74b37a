package fleet

import (
	"bytes"
	"encoding/hex"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// held is an object as an edge has it: enough to prove that it is the right one.
type held struct {
	uid  [16]byte
	sum  uint64
	name uint32 // of what pods use: packName of it
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

// packUID makes 16 bytes of a UID; of one that is no UUID its hash.
func packUID(uid string) (out [16]byte) {
	raw, err := hex.DecodeString(strings.ReplaceAll(uid, "-", ""))
	if err == nil && len(raw) == len(out) {
		return [16]byte(raw)
	}
	h := fnv.New128a()
	_, _ = h.Write([]byte(uid)) // a hash takes everything
	return [16]byte(h.Sum(nil))
}

// packName makes 4 bytes of the name of a ConfigMap or Secret, 0 of another object's.
func packName(r message.Resource) uint32 {
	if !r.Acked() {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(r.String())) // a hash takes everything
	return max(h.Sum32(), 1)
}

// hasName reports whether an edge has a ConfigMap or Secret of a name.
func (o objects) hasName(r message.Resource) bool {
	name := packName(r)
	return name != 0 && slices.ContainsFunc(o, func(h held) bool { return h.name == name })
}

// objects are what an edge has, by UID.
type objects []held

func (o objects) findIndex(uid [16]byte) (int, bool) {
	return slices.BinarySearchFunc(o, uid, func(h held, uid [16]byte) int { return bytes.Compare(h.uid[:], uid[:]) })
}

// putObject keeps an object. It returns what it was to the edge: new, changed, or a duplicate.
func (o *objects) putObject(h held) string {
	i, ok := o.findIndex(h.uid)
	switch {
	case !ok:
		*o = slices.Insert(*o, i, h)
		if cap(*o) > len(*o)+4 {
			*o = slices.Clip(slices.Clone(*o)) // doubling would cost what the digest saves
		}
		return "new"
	case (*o)[i] == h:
		return "duplicate"
	}
	(*o)[i] = h
	return "changed"
}

// removeObject drops an object. It returns what it was to the edge: deleted, or a duplicate.
func (o *objects) removeObject(uid [16]byte) string {
	i, ok := o.findIndex(uid)
	if !ok {
		return "duplicate"
	}
	*o = slices.Delete(*o, i, i+1)
	return "deleted"
}
