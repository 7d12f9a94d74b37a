// Package component names the components of a control plane and their processes, as command
// lines, folders of executables, scenarios and records name them.
package component

import (
	"slices"
	"strconv"
	"strings"
)

// The four components.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	Scheduler         = "kube-scheduler"
	ControllerManager = "kube-controller-manager"
)

// Names returns the four components in the order in which they are started.
func Names() []string { return []string{Etcd, APIServer, Scheduler, ControllerManager} }

// Instances names n processes of a component: NAME-0, NAME-1 ...; a single one has the
// component's own name.
func Instances(name string, n int) []string {
	if n <= 1 {
		return []string{name}
	}
	out := make([]string, n)
	for i := range out {
		out[i] = name + "-" + strconv.Itoa(i)
	}
	return out
}

// Of returns the component of a process and the process's number: kube-apiserver and 1 of
// kube-apiserver-1. Any other name is returned as it is, with number 0.
func Of(process string) (name string, number int) {
	i := strings.LastIndexByte(process, '-')
	if i < 0 || !slices.Contains(Names(), process[:i]) {
		return process, 0
	}
	n, err := strconv.Atoi(process[i+1:])
	if err != nil || n < 0 || strconv.Itoa(n) != process[i+1:] {
		return process, 0
	}
	return process[:i], n
}

// Leader names whichever process of a component leads the others when it is asked.
func Leader(name string) string { return name + "-leader" }

// Is tells whether a process is one of a component, or has its name.
func Is(process, name string) bool {
	of, _ := Of(process)
	return process == name || of == name
}
