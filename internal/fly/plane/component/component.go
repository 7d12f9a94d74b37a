// Package component names the components of a control plane, as command lines, folders
// of executables and records name them.
package component

// The four components.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	Scheduler         = "kube-scheduler"
	ControllerManager = "kube-controller-manager"
)

// Names returns the four components in the order in which they are started.
func Names() []string { return []string{Etcd, APIServer, Scheduler, ControllerManager} }
