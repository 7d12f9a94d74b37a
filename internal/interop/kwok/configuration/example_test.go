package configuration_test

import (
	"fmt"
	"strings"

	"github.com/windtunnel/windtunnel/internal/interop/kwok/configuration"
)

// Files say the options of the controller and the objects that pods get.
func ExampleRead() {
	c, err := configuration.Read(strings.NewReader(`
apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options: {manageAllNodes: true, nodeLeaseDurationSeconds: 40}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterLogs
metadata: {name: rest}
spec: {logs: [{logsFile: /var/log/rest.log}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Logs
metadata: {name: web, namespace: shop}
spec: {logs: [{containers: [main], logsFile: /var/log/web.log}]}
`), "-")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("leases of", c.Options.NodeLeaseDurationSeconds, "s")
	for _, pod := range []string{"web", "db"} {
		log, _, err := configuration.Find(&c.Objects.Logs, "shop", pod, "main")
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(pod, log.LogsFile)
	}
	// Output:
	// leases of 40 s
	// web /var/log/web.log
	// db /var/log/rest.log
}
