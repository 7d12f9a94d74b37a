package scenario

import (
	"embed"
	"strings"
)

//go:embed exemplars/*.yaml
var exemplars embed.FS

// Exemplars returns the names of the bodies that come with windtunnel: objects of the size
// and shape that those of a large cluster have.
func Exemplars() (out []string) {
	files, _ := exemplars.ReadDir("exemplars") // the folder is part of the program
	for _, f := range files {
		out = append(out, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	return out
}

// ExemplarText returns the template of an exemplar; empty where there is none of this name.
func ExemplarText(name string) string {
	raw, err := exemplars.ReadFile("exemplars/" + name + ".yaml")
	if err != nil {
		return ""
	}
	return string(raw)
}
