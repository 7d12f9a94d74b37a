package template

import (
	"fmt"
	"strings"
)

// importable is a package that templates may import.
type importable struct{ path, text string }

// standInPackages returns stand-ins for the two packages that KubeVela v1.5 had for the
// templates of steps and of queries, vela/op and vela/ql: definitions of operations,
// 23 kB and 1.6 kB of them as there (the sizes are sums over the files of its
// pkg/stdlib, of several commits), in this project's own words. No template of the
// plane imports them; what was done needlessly was to put them together and to parse
// them.
func standInPackages() []importable {
	return []importable{
		{"vela/op", operationDefinitions([]string{"Apply", "Read", "List", "Delete"}, "kube", "oam", "http", "email", "task", "time", "config", "multicluster", "terraform", "chat")},
		{"vela/ql", operationDefinitions([]string{"Read", "List", "Watch"}, "query")},
	}
}

// operationDefinitions returns definitions of what providers can do.
func operationDefinitions(verbs []string, providers ...string) string {
	var b strings.Builder
	for _, provider := range providers {
		fmt.Fprintf(&b, "%s: {\n", provider)
		for _, verb := range verbs {
			fmt.Fprintf(&b, `	// #%[1]s asks the provider %[2]s to do so.
	#%[1]s: {
		#do:       %[3]q
		#provider: %[2]q

		// what it is about, and where that is
		cluster: *"" | string
		value: {
			apiVersion: string
			kind:       string
			metadata: {
				name:      string
				namespace: *"default" | string
				labels?: [string]: string
			}
			...
		}
		// how long it may take, and how often it is tried
		timeout: *10 | int & >0
		tries:   *1 | int & >0 & <=10
		// what it says in the end
		message?: string
		failed:   *false | bool
		if failed {
			reason: string
		}
		...
	}
`, verb, provider, strings.ToLower(verb))
		}
		b.WriteString("}\n")
	}
	return b.String()
}
