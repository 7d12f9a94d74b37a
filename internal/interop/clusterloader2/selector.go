package clusterloader2

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/config"
)

// labelText writes a selector of matchLabels and matchExpressions as kubectl
// takes it; empty when it is none.
func labelText(u *config.ListUnknown) string {
	s := metav1.LabelSelector{MatchLabels: u.LabelSelector.MatchLabels}
	for _, e := range u.LabelSelector.MatchExpressions {
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator), Values: e.Values,
		})
	}
	out, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		return ""
	}
	return out.String()
}

// selectorOf reads a selector as text; false when it is none.
func selectorOf(text string) (labels.Selector, bool) {
	s, err := labels.Parse(text)
	return s, err == nil
}

// resourceOf is the resource of a kind as scenarios name it, by the rules of
// English that Kubernetes goes by: deployments.apps.
func resourceOf(apiVersion, kind string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || kind == "" {
		return strings.ToLower(kind) + "s"
	}
	plural, _ := meta.UnsafeGuessKindToResource(gv.WithKind(kind))
	if builtIn(gv.Group) {
		return joinDots(plural.Resource, gv.Group)
	}
	return joinDots(plural.Resource, gv.Version, gv.Group) // which version is preferred only the plane knows
}

// builtIn tells whether a group is one of Kubernetes itself.
func builtIn(group string) bool {
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}

func joinDots(parts ...string) string {
	out := ""
	for _, p := range parts {
		switch {
		case p == "":
		case out == "":
			out = p
		default:
			out += "." + p
		}
	}
	return out
}
