// Package component is the only door to k8s.io/kubernetes and the etcd server:
// under the build tag "embedded" it runs one of the four control-plane
// components in this process, without the tag it says that it cannot.
//
// It starts no processes: package plane starts this executable again with a
// component's name as its first argument, and main hands that to Main before
// it looks for anything else.
package component

import "errors"

// ErrNotEmbedded says that this executable was built without the components.
var ErrNotEmbedded = errors.New("this build has no embedded control plane: build with `make build`, or give binaries: or --kubeconfig")

// The four components, as they are named on a command line.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	Scheduler         = "kube-scheduler"
	ControllerManager = "kube-controller-manager"
)

// Names returns the four components in the order in which they are started.
func Names() []string { return []string{Etcd, APIServer, Scheduler, ControllerManager} }
