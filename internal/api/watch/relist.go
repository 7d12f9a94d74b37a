package watch

import "iter"

// Relist finds what a list no longer holds: what was known before and is not in
// it was deleted while nobody watched. Its zero value is ready.
type Relist[K comparable] struct {
	listed map[K]struct{} // nil when no list is under way
}

// Begin begins a list, again if one was broken off.
func (r *Relist[K]) Begin() { r.listed = map[K]struct{}{} }

// Add notes an object of the list; between lists it does nothing.
func (r *Relist[K]) Add(k K) {
	if r.listed != nil {
		r.listed[k] = struct{}{}
	}
}

// Underway says that a list has begun and not ended.
func (r *Relist[K]) Underway() bool { return r.listed != nil }

// End ends the list and returns those of the known objects that it did not
// hold; none when no list had begun.
func (r *Relist[K]) End(known iter.Seq[K]) (deleted []K) {
	if r.listed == nil {
		return nil
	}
	for k := range known {
		if _, ok := r.listed[k]; !ok {
			deleted = append(deleted, k)
		}
	}
	r.listed = nil
	return deleted
}
