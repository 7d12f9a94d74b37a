package process

import (
	"os"
	"strconv"
)

// TryLimits makes a control group with these limits and removes it again. Its
// error says why the limits of a component would not be in force here.
func TryLimits(l Limits) error {
	g, err := newCgroup(namePrefix+"try-"+strconv.Itoa(os.Getpid()), l, nil)
	if err != nil {
		return err
	}
	return g.remove()
}
