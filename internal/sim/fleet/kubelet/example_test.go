package kubelet_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/interop/kwok/configuration"
	"github.com/windtunnel/windtunnel/internal/sim/fleet/kubelet"
)

// A server that stands for the kubelets of all nodes, with a log for every pod.
func Example() {
	file, err := os.CreateTemp("", "log")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.Remove(file.Name())
	fmt.Fprintln(file, "2026-01-02T03:04:05Z stdout F hello")
	c, err := configuration.Read(strings.NewReader(`
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterLogs
metadata: {name: every-pod}
spec: {logs: [{logsFile: `+file.Name()+`}]}
`), "-")
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := kubelet.Start(context.Background(), kubelet.Options{Objects: c.Objects, Clock: clock.Start()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	answer, err := http.Get("http://" + server.Addr().String() + "/containerLogs/default/web/main")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	fmt.Print(string(body))
	// Output: hello
}
