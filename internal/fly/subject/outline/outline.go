// Package outline writes a first scenario for a published controller, from what its module
// has and what its help says. What it cannot find is said in the scenario's README.
package outline

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"text/template"

	"github.com/windtunnel/windtunnel/internal/fly/subject/program"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// Errors of outlining.
var (
	// ErrManyMains says that a module has several main packages and none of them is plainly the controller.
	ErrManyMains = errors.New("name the package")
	// ErrNoKind says that a module defines no such kind.
	ErrNoKind = errors.New("no such kind")
)

//go:embed templates
var templates embed.FS

// Controller is what is known of a published controller.
type Controller struct {
	Build scenario.Build
	Flags []Flag   // empty: its help shows none
	Kinds []Kind   // the first is the one to create; empty: its module defines none
	CRDs  []string // patterns of the files that define the kinds
	Mixed []string // files that define kinds together with other objects
	// Webhooks are patterns of the files that name its webhooks. A program without a flag for
	// their port serves them where windtunnel cannot say.
	Webhooks []string
}

// New returns what is known of a controller from its program, the text of its help and the
// main packages of its module, each as ./cmd/manager.
func New(b scenario.Build, p program.Program, help string, mains []string) Controller {
	isOthers := func(name string) bool { return isOfTests(name) || isOfAnother(name, b.PackagePath(), mains) }
	p.Definitions, p.Manifests = slices.DeleteFunc(slices.Clone(p.Definitions), isOthers), slices.DeleteFunc(slices.Clone(p.Manifests), isOthers)
	c := Controller{Build: b, Flags: ParseFlags(help), Kinds: ReadKinds(p), Webhooks: chooseWebhooks(p)}
	c.CRDs, c.Mixed = Definitions(p)
	return c
}

// ChooseMain returns the main package of a module that is the controller.
func ChooseMain(module string, mains []string) (string, error) {
	name := path.Base(module)
	for _, likely := range []string{"./cmd/manager", "./cmd/controller", "./cmd/operator", "./cmd/" + name, "./cmd/" + name + "-controller", "./cmd/controller-manager", "."} {
		if slices.Contains(mains, likely) {
			return likely, nil
		}
	}
	switch len(mains) {
	case 0:
		return "", fmt.Errorf("%s: %w", module, program.ErrNoMain)
	case 1:
		return mains[0], nil
	}
	const few = 12
	return "", fmt.Errorf("%s has %s: %w, such as --package %s", module, unit.Count(len(mains), "main packages"), ErrManyMains, strings.Join(mains[:min(few, len(mains))], " or "))
}

// ChooseKind puts a kind before the others.
func (c *Controller) ChooseKind(name string) error {
	i := slices.IndexFunc(c.Kinds, func(k Kind) bool { return strings.EqualFold(k.Kind, name) })
	if i < 0 {
		var known []string
		for _, k := range c.Kinds {
			known = append(known, k.Kind)
		}
		return fmt.Errorf("%s %s: %w: %s; it defines %s", c.Build.Module, c.Build.Version, ErrNoKind, name, strings.Join(known, ", "))
	}
	chosen := c.Kinds[i]
	c.Kinds = slices.Insert(slices.Delete(c.Kinds, i, i+1), 0, chosen)
	return nil
}

// Name returns the name of the controller, a DNS label.
func (c Controller) Name() string {
	base := program.NameOf(c.Build)
	if slices.Contains([]string{"manager", "controller", "operator", "controller-manager", "cmd"}, base) { // it names no controller
		base = program.NameOf(scenario.Build{Module: c.Build.Module, Package: "."})
	}
	label := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(base))
	const longest = 30
	if label = strings.Trim(label[:min(longest, len(label))], "-0123456789"); label == "" {
		return "controller"
	}
	return label
}

// page is what the templates show.
type page struct {
	Controller
	Kind    *Kind
	Body    string
	Ready   string // the condition that is waited for
	Args    []string
	Metrics bool
	Probes  bool
	Missing []string
}

// Write returns the files of a folder with a scenario for a controller, by name.
func (c Controller) Write() (map[string][]byte, error) {
	p := page{Controller: c, Ready: "Ready"}
	p.Args, p.Missing = arguments(c.Flags)
	all := strings.Join(p.Args, " ")
	p.Metrics, p.Probes = strings.Contains(all, "$(METRICS_PORT)"), strings.Contains(all, "$(PROBE_PORT)")
	if len(c.Flags) == 0 {
		p.Missing = []string{"`--help` shows no flags: add what the program needs to `args`."}
	}
	if len(c.Webhooks) > 0 && !strings.Contains(all, "$(WEBHOOK_PORT)") {
		p.Missing = append(p.Missing, "No flag for the port of webhooks: `"+strings.Join(c.Webhooks, "`, `")+"` of the module is not applied. If the program takes a configuration file, write it in `files` and name $(WEBHOOK_PORT) and $(FILES) there.")
		p.Webhooks = nil
	}
	for _, file := range c.Mixed {
		p.Missing = append(p.Missing, fmt.Sprintf("`%s` of the module defines kinds, and has other objects beside them: copy the definitions into a file beside `load.yaml`, and name it in `crds` of the subject.", file))
	}
	if len(c.Kinds) == 0 {
		p.Missing = append(p.Missing, "The module has no CustomResourceDefinition: the scenario creates ConfigMaps in place of the objects of the controller.")
	} else {
		var err error
		p.Kind = &c.Kinds[0]
		if p.Body, err = p.Kind.body(); err != nil {
			return nil, err
		}
		p.Ready = cmp.Or(p.Kind.Ready, p.Ready)
		if p.Kind.Sample == nil {
			p.Missing = append(p.Missing, fmt.Sprintf("The module has no %s that could serve as an example: fill in its `spec`.", p.Kind.Kind))
		}
		if others := p.Kind.references(); len(others) > 0 {
			p.Missing = append(p.Missing, fmt.Sprintf("The example names other objects (`%s`), without which it may never be ready: create them in a step before, or remove the names.", strings.Join(others, "`, `")))
		}
		switch {
		case p.Kind.Conditions && p.Kind.Ready == "":
			p.Missing = append(p.Missing, fmt.Sprintf("The definition of %s does not say which condition means that it is ready: the scenario waits for Ready.", p.Kind.Kind))
		case !p.Kind.Conditions:
			p.Missing = append(p.Missing, fmt.Sprintf("The status of %s has no conditions: say when it is ready.", p.Kind.Kind))
		}
	}
	out := map[string][]byte{}
	for _, name := range []string{"load.yaml", "README.md"} {
		t, err := template.New("").Delims("<<", ">>").Funcs(template.FuncMap{"indent": indent, "lower": strings.ToLower}).ParseFS(templates, "templates/"+name)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := t.ExecuteTemplate(&b, name, p); err != nil {
			return nil, err
		}
		out[name] = b.Bytes()
	}
	return out, nil
}

// indent puts spaces before each line.
func indent(n int, text string) string {
	space := strings.Repeat(" ", n)
	return space + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+space)
}
