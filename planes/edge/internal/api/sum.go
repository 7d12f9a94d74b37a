package api

import (
	"bytes"
	"encoding/json"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sum returns a digest of what an edge acts on: without status, version and
// bookkeeping. An object that came through JSON has the sum that it had before.
func Sum(o metav1.Object) uint64 {
	what := struct {
		Name, Namespace, UID string
		Labels, Annotations  map[string]string
		Deleting             int64
		Body                 any
	}{Name: o.GetName(), Namespace: o.GetNamespace(), UID: string(o.GetUID()), Labels: nilIfEmpty(o.GetLabels()), Annotations: nilIfEmpty(o.GetAnnotations())}
	if at := o.GetDeletionTimestamp(); at != nil {
		what.Deleting = at.Truncate(time.Second).Unix()
	}
	switch x := o.(type) {
	case *corev1.Pod:
		what.Body = &x.Spec
	case *corev1.Node:
		what.Body = &x.Spec
	case *corev1.ConfigMap:
		what.Body = []any{x.Data, x.BinaryData, x.Immutable}
	case *corev1.Secret:
		what.Body = []any{x.Data, x.Type, x.Immutable}
	case *Device:
		what.Body = &x.Spec
	case *DeviceModel:
		what.Body = x.Spec
	}
	raw, err := json.Marshal(what)
	if err != nil {
		panic(err) // these types can always be written
	}
	switch o.(type) {
	case *Device, *DeviceModel:
		raw = canonical(raw)
	}
	h := fnv.New64a()
	_, _ = h.Write(raw) // a hash takes everything
	return h.Sum64()
}

// canonical orders the keys of a document: a hub may have written parts that are raw JSON in
// another order than the API server.
func canonical(raw []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // a large number stays as it is
	var parsed any
	if err := d.Decode(&parsed); err != nil {
		panic(err) // it was just written
	}
	out, err := json.Marshal(parsed)
	if err != nil {
		panic(err) // it was just read
	}
	return out
}

// nilIfEmpty is nil for an empty map, as it is after JSON.
func nilIfEmpty(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}
