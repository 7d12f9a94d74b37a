package scenario

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Resource names a kind of object as scenarios write it: configmaps,
// deployments.apps, widgets.v1alpha1.example.org.
type Resource struct {
	Plural  string
	Version string // empty: the one that the server prefers
	Group   string // empty: the core group
}

var versionWord = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)

// ParseResource reads a resource's name.
func ParseResource(text string) (Resource, error) {
	plural, rest, _ := strings.Cut(text, ".")
	r := Resource{Plural: plural, Group: rest}
	if version, group, _ := strings.Cut(rest, "."); versionWord.MatchString(version) {
		r.Version, r.Group = version, group
	}
	if len(validation.IsDNS1035Label(plural)) > 0 || r.Group != "" && len(validation.IsDNS1123Subdomain(r.Group)) > 0 || strings.HasSuffix(text, ".") {
		return Resource{}, fmt.Errorf("%q is not a resource such as configmaps, deployments.apps or widgets.v1alpha1.example.org", clipText(text))
	}
	return r, nil
}

// String writes the resource as record.Op has it: plural and group.
func (r Resource) String() string {
	if r.Group == "" {
		return r.Plural
	}
	return r.Plural + "." + r.Group
}
