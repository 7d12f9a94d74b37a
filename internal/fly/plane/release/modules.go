package release

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// needs is what the go.mod of a release of Kubernetes says about building it.
type needs struct {
	language string   // its go line, such as 1.26.0
	godebug  []string // its godebug settings, such as default=go1.26: they follow the main module
	staging  []string // the modules that live in its repository, sorted
	etcd     string   // the release of etcd's server that its tests use; empty: not named
}

// neverLinked returns the modules of Kubernetes' repository that no component of a plane
// imports. A release is whole without them.
func neverLinked() []string {
	return []string{
		"k8s.io/cli-runtime", "k8s.io/code-generator", "k8s.io/cri-streaming",
		"k8s.io/sample-apiserver", "k8s.io/sample-cli-plugin", "k8s.io/sample-controller",
	}
}

var (
	languageLine = regexp.MustCompile(`(?m)^go (\S+)$`)
	godebugLine  = regexp.MustCompile(`(?m)^godebug ([\w]+=\S+)$`)
	godebugBlock = regexp.MustCompile(`(?ms)^godebug \(\n(.*?)^\)`)
	stagingLine  = regexp.MustCompile(`(?m)^\s*(?:replace )?(k8s\.io/\S+) => \./staging/`)
	etcdLine     = regexp.MustCompile(`(?m)^\s*(?:require )?go\.etcd\.io/etcd/server/v3 (v\S+)`)
	etcdPartLine = regexp.MustCompile(`(?m)^\s*(?:require )?(go\.etcd\.io/etcd/\S+) (v\S+)`)
)

// readNeeds reads the go.mod of k8s.io/kubernetes.
func readNeeds(mod string) (needs, error) {
	var n needs
	language := languageLine.FindStringSubmatch(mod)
	for _, m := range stagingLine.FindAllStringSubmatch(mod, -1) {
		n.staging = append(n.staging, m[1])
	}
	if language == nil || len(n.staging) == 0 {
		return n, fmt.Errorf("the go.mod of %s has no go line, or no modules of its own repository", kubernetesModule)
	}
	n.language = language[1]
	for _, m := range godebugLine.FindAllStringSubmatch(mod, -1) {
		n.godebug = append(n.godebug, m[1])
	}
	if m := godebugBlock.FindStringSubmatch(mod); m != nil {
		n.godebug = append(n.godebug, strings.Fields(m[1])...)
	}
	if m := etcdLine.FindStringSubmatch(mod); m != nil {
		n.etcd = m[1]
	}
	slices.Sort(n.staging)
	n.staging = slices.Compact(n.staging)
	return n, nil
}

// missing returns which modules of a release a proxy lacks that its components need.
func (n needs) missing(has func(module string) bool) (out []string) {
	for _, module := range n.staging {
		if !has(module) && !slices.Contains(neverLinked(), module) {
			out = append(out, module)
		}
	}
	return out
}

// unusedFolder stands in for the modules that a proxy lacks and no component imports.
const unusedFolder = "./unused"

// moduleFile returns the go.mod of a module that links a release. With an etcd it links
// that as well.
func (n needs) moduleFile(kubernetes version, etcd string, has func(module string) bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "module github.com/windtunnel/windtunnel/plane\n\ngo %s\n\n", n.language)
	for _, setting := range n.godebug {
		fmt.Fprintf(&b, "godebug %s\n\n", setting)
	}
	fmt.Fprintf(&b, "require %s %v\n", kubernetesModule, kubernetes)
	if etcd != "" {
		fmt.Fprintf(&b, "\nrequire %s %s\n", etcdModule, etcd)
	}
	b.WriteString("\nreplace (\n")
	for _, module := range n.staging {
		to := module + " " + kubernetes.staging()
		if !has(module) {
			to = unusedFolder
		}
		fmt.Fprintf(&b, "\t%s => %s\n", module, to)
	}
	b.WriteString(")\n")
	return b.String()
}
