package plane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Attach returns the plane that a kubeconfig's current context reaches. It
// starts nothing, and Close ends nothing but programs. Of the options it takes
// Executable, Log, Clock, OnFault and Rights, which the kubeconfig's user must
// have.
//
// Errors are one line: ErrUnreachable, or ErrUnauthorised with the right that
// is missing.
func Attach(ctx context.Context, kubeconfig string, o Options) (*Plane, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	e, err := endpoint.FromKubeconfig(kubeconfig, "")
	if err != nil {
		return nil, oneLine(err)
	}
	p, err := attachTo(ctx, e, o.Rights)
	if err != nil {
		return nil, oneLine(fmt.Errorf("kubeconfig %s: %w", kubeconfig, err))
	}
	p.log, p.clock, p.onFault, p.executable = o.Log, o.Clock, o.OnFault, o.Executable
	p.kubeconfig, err = filepath.Abs(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return p, nil
}

// CheckKubeconfig says what is wrong with a kubeconfig, in one line. It asks no server.
func CheckKubeconfig(file string) error {
	if _, err := endpoint.FromKubeconfig(file, ""); err != nil {
		return oneLine(err)
	}
	return nil
}

// Beside returns a plane of which nothing is here but the programs that Launch starts
// beside it: those of a worker. Their kubeconfigs hold what identify returns or, where
// that is nil, are the file kubeconfig. Of the options it takes Executable, Log and
// Clock.
func Beside(kubeconfig string, identify func(name string) (endpoint.Endpoint, error), o Options) (*Plane, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	return &Plane{
		log: o.Log, clock: o.Clock, onFault: o.OnFault, executable: o.Executable, kubeconfig: kubeconfig, identify: identify,
		endpoints: map[string]endpoint.Endpoint{}, facts: record.PlaneFacts{Kind: kindAttached}, died: make(chan Death, roomForDeaths),
	}, nil
}

func attachTo(ctx context.Context, e endpoint.Endpoint, rights []Right) (*Plane, error) {
	api, err := newAsker(e)
	if err != nil {
		return nil, err
	}
	defer api.client.CloseIdleConnections()
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := api.Ask(ctx, "/version", nil, &version); err != nil {
		return nil, unreachableError(e.Server(), err)
	}
	if err := api.requireRights(ctx, rights); err != nil {
		return nil, err
	}
	return &Plane{
		endpoints:  map[string]endpoint.Endpoint{Admin: e, Load: e, Fleet: e, Observe: e},
		components: []Component{{Name: component.APIServer, MetricsURL: strings.TrimSuffix(api.base.JoinPath("/metrics").String(), "/"), Scrape: e}},
		facts:      record.PlaneFacts{Kind: kindAttached},
		versions:   map[string]string{"kubernetes": version.GitVersion},
		died:       make(chan Death, roomForDeaths),
	}, nil
}

// unreachableError tells an answer that refuses from none at all.
func unreachableError(server string, err error) error {
	var status *statusError
	if errors.As(err, &status) && (status.code == http.StatusUnauthorized || status.code == http.StatusForbidden) {
		return fmt.Errorf("%w: %s does not accept the credentials (%d)", ErrUnauthorised, server, status.code)
	}
	return fmt.Errorf("%w at %s: %w", ErrUnreachable, server, err)
}

// Right is one verb on a resource, or on a part of it.
type Right struct{ Verb, Group, Resource, Part, Namespace string }

// describeObject is RESOURCE[/PART][.GROUP] [in NAMESPACE].
func (r Right) describeObject() string {
	out := r.Resource
	if r.Part != "" {
		out += "/" + r.Part
	}
	if r.Group != "" {
		out += "." + r.Group
	}
	if r.Namespace != "" {
		out += " in " + r.Namespace
	}
	return out
}

// requireRights asks for the rights that a run needs and names those missing.
func (a *Asker) requireRights(ctx context.Context, rights []Right) error {
	const api = "authorization.k8s.io"
	missing, verbs := map[string][]string{}, []string(nil)
	for _, r := range rights {
		var answer struct {
			Status struct {
				Allowed bool `json:"allowed"`
			} `json:"status"`
		}
		err := a.Ask(ctx, "/apis/"+api+"/v1/selfsubjectaccessreviews", map[string]any{
			"apiVersion": api + "/v1", "kind": "SelfSubjectAccessReview",
			"spec": map[string]any{"resourceAttributes": map[string]any{"verb": r.Verb, "group": r.Group, "resource": r.Resource, "subresource": r.Part, "namespace": r.Namespace}},
		}, &answer)
		if err != nil {
			return unreachableError(a.base.String(), err)
		}
		if !answer.Status.Allowed {
			if missing[r.Verb] == nil {
				verbs = append(verbs, r.Verb)
			}
			missing[r.Verb] = append(missing[r.Verb], r.describeObject())
		}
	}
	if len(verbs) == 0 {
		return nil
	}
	var all []string
	for _, verb := range verbs {
		all = append(all, verb+" "+strings.Join(missing[verb], ", "))
	}
	return fmt.Errorf("%w: its user may not %s: run FILE --print-rbac writes the roles that the scenario needs", ErrUnauthorised, strings.Join(all, "; "))
}

// oneLine keeps an error's chain and writes it on one line.
func oneLine(err error) error { return &lineError{err} }

type lineError struct{ error }

func (e *lineError) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }
func (e *lineError) Unwrap() error { return e.error }
