package process

import "errors"

// TryLimits makes a control group with these limits and another in it, as a plane and
// its components have, and removes both again. Its error says why limits would not be
// in force here.
func TryLimits(l Limits) error {
	shared, err := NewGroup("try", l, nil)
	if err != nil {
		return err
	}
	one, err := newCgroup(groupName(nil, "try-one"), l, shared, nil)
	if err == nil {
		err = one.removeGroup()
	}
	return errors.Join(err, shared.Close())
}
