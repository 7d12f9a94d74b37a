//go:build embedded

package component

import (
	"os"
	_ "time/tzdata" // time zones of CronJobs, on machines without a zone folder

	etcdversion "go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // rest_client_* in every component's metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	"k8s.io/component-base/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// Embedded says whether this executable holds the components.
func Embedded() bool { return true }

// Versions returns the versions of kubernetes and etcd that are linked in.
func Versions() map[string]string {
	return map[string]string{"kubernetes": version.Get().GitVersion, "etcd": etcdversion.Version}
}

// Main runs a component in this process until it ends and returns its exit
// code; handled is false, and nothing was done, when name is no component.
func Main(name string, args []string) (handled bool, code int) {
	switch name {
	case Etcd, APIServer, Scheduler, ControllerManager:
	default:
		return false, 0
	}
	// The components read their command line from here, also for messages.
	os.Args = append([]string{name}, args...)
	switch name {
	case Etcd:
		etcdmain.Main(os.Args) // ends the process itself unless all is well
	case APIServer:
		code = cli.Run(apiserver.NewAPIServerCommand())
	case Scheduler:
		code = cli.Run(scheduler.NewSchedulerCommand())
	case ControllerManager:
		code = cli.Run(controllermanager.NewControllerManagerCommand())
	}
	return true, code
}
