package workload

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	texttemplate "text/template"

	"github.com/windtunnel/windtunnel/internal/template"
	"github.com/windtunnel/windtunnel/scenario"
)

// kubeconfigFunction is the function of bodies that gives the kubeconfig of a member, for
// Secrets by which a program under test finds its clusters.
const kubeconfigFunction = "kubeconfig"

// standIn is what it gives before there are members.
const standIn = "{apiVersion: v1, kind: Config}\n"

var errNoMember = errors.New("no such member")

// Kubeconfigs are those of the members, for bodies.
type Kubeconfigs struct {
	groups []scenario.Members
	folder string // empty before the members are started
}

// Use lets bodies contain the kubeconfigs in a folder: NAME.kubeconfig of each member. It is
// called before the first step.
func (k *Kubeconfigs) Use(folder string, bodies map[string]*template.Template) {
	k.folder = folder
	for _, body := range bodies {
		body.Forget()
	}
}

// functions returns those of windtunnel's own bodies.
func (k *Kubeconfigs) functions(s template.Source) texttemplate.FuncMap {
	out := s.OwnFunctions()
	out[kubeconfigFunction] = k.read
	return out
}

func (k *Kubeconfigs) read(member string) (string, error) {
	if !slices.ContainsFunc(k.groups, func(m scenario.Members) bool { return slices.Contains(m.MemberNames(), member) }) {
		return "", fmt.Errorf("%q: %w", member, errNoMember)
	}
	if k.folder == "" {
		return standIn, nil
	}
	raw, err := os.ReadFile(filepath.Join(k.folder, member+".kubeconfig"))
	return string(raw), err
}
