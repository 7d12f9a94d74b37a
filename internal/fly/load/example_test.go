package load_test

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/record"
)

// A plan: ten gets a second of Deployments, one after another.
func ExamplePlan() {
	deployments := discovery.Resource{Name: "deployments.apps", Root: "/apis/apps/v1", Plural: "deployments", Namespaced: true}
	get, err := load.NewForm(deployments, load.Target{Verb: "get", Subresource: "scale"})
	if err != nil {
		panic(err)
	}
	p := load.Plan{
		Ops: []record.Op{get.Op("read")}, Count: 100, Pace: pace.Constant(10),
		Build: func(i int, req *load.Request) (bool, error) {
			get.Fill(req, "default", fmt.Sprintf("web-%d", i))
			return true, nil
		},
	}
	var req load.Request
	fmt.Println(p.Build(7, &req))
	fmt.Println(p.Pace.Due(7), req.Method, req.Path)
	// Output:
	// true <nil>
	// 700ms GET /apis/apps/v1/namespaces/default/deployments/web-7/scale
}
