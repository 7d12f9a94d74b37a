package watch

import "google.golang.org/protobuf/encoding/protowire"

// DecodeLabels calls f with each label of an object in protobuf form; all kinds
// have their metadata in field 1. The strings are views of the bytes.
func DecodeLabels(object []byte, f func(name, value []byte)) error {
	return fields(object, func(n protowire.Number, v []byte) {
		if n != 1 {
			return
		}
		_ = fields(v, func(n protowire.Number, v []byte) {
			if n == 11 {
				f(pair(v))
			}
		})
	})
}
