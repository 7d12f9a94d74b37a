// Command kube-plane is a control plane of Kubernetes in one executable: etcd,
// kube-apiserver, kube-scheduler and kube-controller-manager of one release. Its first
// argument names the component that it runs; the rest is that component's command line.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // time zones of CronJobs, on machines without a zone folder

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // rest_client_* in every component's metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	if len(os.Args) > 1 {
		os.Args = os.Args[1:] // components read their command line from here, also for messages
	}
	os.Exit(runComponent(os.Args[0]))
}

// runComponent runs one component until it ends and returns its exit code.
func runComponent(name string) int {
	var command *cobra.Command
	switch name {
	case "etcd":
		return runEtcd(os.Args)
	case "kube-apiserver":
		if host := os.Getenv("KUBE_PLANE_HOSTNAME"); host != "" { // the identity is a hash of it
			server.SetHostnameFuncForTests(host)
		}
		command = apiserver.NewAPIServerCommand()
	case "kube-scheduler":
		command = scheduler.NewSchedulerCommand()
	case "kube-controller-manager":
		command = controllermanager.NewControllerManagerCommand()
	default:
		fmt.Fprintln(os.Stderr, "usage: kube-plane etcd|kube-apiserver|kube-scheduler|kube-controller-manager [FLAGS]")
		return 2
	}
	return cli.Run(command)
}
