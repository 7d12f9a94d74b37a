package tree

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// cutKey splits NAMESPACE/NAME.
func cutKey(key string) (namespace, name string) {
	namespace, name, _ = strings.Cut(key, "/")
	return namespace, name
}

// errNotYet says that something is not there yet, and is looked for again.
var errNotYet = errors.New("not there yet")

// ignoreNotFound takes "not found" for an answer.
func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
