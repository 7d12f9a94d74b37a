package template

import (
	"fmt"
	texttemplate "text/template"
)

// The dialects: whose functions and variables a body uses. They are the values
// of a scenario's bodies.NAME.dialect; empty is Windtunnel.
const (
	Windtunnel     = "windtunnel"
	ClusterLoader2 = "clusterloader2"
	KubeBurner     = "kube-burner"
)

// dialect is what differs between the languages of bodies.
type dialect struct {
	names     string                                      // its variables, for messages
	missing   string                                      // what an unknown variable does: error, or invalid: "<no value>" stands there
	functions func(x *executor) texttemplate.FuncMap      // of each executor, because random ones use its state
	random    []string                                    // the functions whose values differ from object to object
	differs   []string                                    // the variables that do, beside .Name, .Namespace, .Index and .Replica
	aliases   []string                                    // other names of .Index and .Replica
	variables func(v Vars, data map[string]any)           // adds the object's own to those of With
	lastWins  bool                                        // of a key that a mapping has twice the last value counts, as its tool decodes; else it is an error
	finish    func(object []byte, v Vars) ([]byte, error) // completes an object, JSON in and out; nil when it is as it was rendered
}

// dialectOf returns a dialect by its name.
func dialectOf(name string) (dialect, error) {
	switch name {
	case "", Windtunnel:
		return windtunnelDialect(), nil
	case ClusterLoader2:
		return clusterLoader2(), nil
	case KubeBurner:
		return kubeBurner(), nil
	}
	return dialect{}, fmt.Errorf("dialect %q is none of %s, %s and %s", name, Windtunnel, ClusterLoader2, KubeBurner)
}

func windtunnelDialect() dialect {
	return dialect{
		names:   ".Name .Namespace .Index .Replica .Group .Seed",
		missing: "error", random: []string{"randInt", "randAlpha", "payload"},
		functions: func(x *executor) texttemplate.FuncMap { return x.templateFunctions() },
		variables: func(v Vars, data map[string]any) {
			data["Name"], data["Namespace"], data["Group"] = v.Name, v.Namespace, v.Group
			data["Index"], data["Replica"], data["Seed"] = v.Index, v.replicaNumber(), v.Seed
		},
	}
}
