package controller

import (
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// written remembers the versions that the controller's own writes made, until the cache
// has them: what is decided of an older one would be refused, or be done twice.
// Like expectations it is empty after a restart. The zero value is ready.
type written struct {
	mu       sync.Mutex
	versions map[string]uint64 // by key
}

// note keeps what a write made of the object of a key.
func (w *written) note(key string, o metav1.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.versions == nil {
		w.versions = map[string]uint64{}
	}
	w.versions[key] = versionOf(o)
}

// isSeen says whether an object from the cache is as new as the last write of its key.
func (w *written) isSeen(key string, o metav1.Object) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if versionOf(o) < w.versions[key] {
		return false
	}
	delete(w.versions, key)
	return true
}

func (w *written) forget(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.versions, key)
}

// versionOf reads a resourceVersion, which servers count up; 0 where there is none.
func versionOf(o metav1.Object) uint64 {
	n, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
