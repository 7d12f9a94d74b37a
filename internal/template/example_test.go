package template_test

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/template"
)

func ExampleTemplate_Render() {
	t, err := template.Compile("config.yaml", `
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Name }}
data:
  color: {{ .color | upper }}
  noise: {{ randAlpha 6 }}
`, 1, template.Windtunnel())
	if err != nil {
		panic(err)
	}
	for i := range 2 {
		body, err := t.Render(nil, template.Vars{
			Name: fmt.Sprintf("config-%d", i), Index: i, Seed: 1, With: map[string]any{"color": "red"},
		})
		fmt.Println(string(body), err)
	}
	// Output:
	// {"apiVersion":"v1","data":{"color":"RED","noise":"jmuurt"},"kind":"ConfigMap","metadata":{"name":"config-0"}} <nil>
	// {"apiVersion":"v1","data":{"color":"RED","noise":"kviqjj"},"kind":"ConfigMap","metadata":{"name":"config-1"}} <nil>
}
