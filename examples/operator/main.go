// Command operator runs the website operator against the cluster of a kubeconfig.
// It holds nothing of its own: package website does the work.
package main

import (
	"flag"
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/windtunnel/windtunnel/examples/operator/website"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(1)
	}
}

func run() error {
	var o website.Options
	var qps float64
	flag.StringVar(&o.Metrics, "metrics", "0", "address of /metrics; 0: none")
	flag.StringVar(&o.Probes, "probes", "", "address of /readyz; empty: none")
	flag.IntVar(&o.Workers, "workers", 1, "reconciliations at the same time")
	flag.DurationVar(&o.Resync, "resync", 0, "time between reconciliations of all websites; 0: 10 hours, the default of the library")
	flag.Float64Var(&qps, "qps", -1, "requests per second at most; below 0: no limit of its own")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	c, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")) // in a cluster: its service account
	if err != nil {
		return err
	}
	c.QPS, c.Burst = float32(qps), int(2*qps)
	return website.Run(ctrl.SetupSignalHandler(), c, o)
}
