package controller

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/plan"
)

// TestChosenRevision holds which revision an application is, whether it is new, and by
// which definition its component is rendered.
func TestChosenRevision(t *testing.T) {
	defined := func(template string) *api.Definition {
		return &api.Definition{Spec: api.DefinitionSpec{Schematic: &api.Schematic{CUE: &api.CUE{Template: template}}}}
	}
	kept := func(number int, hash string) *api.Revision {
		r := &api.Revision{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("app-v%d", number), Labels: map[string]string{api.LabelRevisionHash: hash}}}
		r.Spec.ComponentDefinitions = map[string]*api.Definition{"worker": defined("old")}
		return r
	}
	latest := func(number int64, hash string) *api.RevisionName {
		return &api.RevisionName{Name: fmt.Sprintf("app-v%d", number), Revision: number, RevisionHash: hash}
	}
	for name, tt := range map[string]struct {
		hash     string
		kept     []*api.Revision
		latest   *api.RevisionName
		template string // of the live definition; default old
		follows  bool
		number   int64
		isNew    bool
		stored   bool
		rendered string // default old
	}{
		"first":                        {hash: "a", number: 1, isNew: true},
		"as it was":                    {hash: "a", kept: []*api.Revision{kept(1, "a")}, latest: latest(1, "a"), number: 1, stored: true},
		"stored, and killed then":      {hash: "a", kept: []*api.Revision{kept(1, "a")}, number: 1, isNew: true, stored: true},
		"changed":                      {hash: "b", kept: []*api.Revision{kept(1, "a")}, latest: latest(1, "a"), number: 2, isNew: true},
		"changed back":                 {hash: "a", kept: []*api.Revision{kept(1, "a"), kept(2, "b")}, latest: latest(2, "b"), number: 1, isNew: true, stored: true},
		"the kept ones are gone":       {hash: "b", latest: latest(7, "a"), number: 8, isNew: true},
		"a definition changed":         {hash: "a", kept: []*api.Revision{kept(1, "a")}, latest: latest(1, "a"), template: "live", number: 1, stored: true},
		"it follows definitions":       {hash: "a", kept: []*api.Revision{kept(1, "a")}, latest: latest(1, "a"), template: "live", follows: true, number: 2, isNew: true, rendered: "live"},
		"changed with its definitions": {hash: "b", kept: []*api.Revision{kept(1, "a")}, latest: latest(1, "a"), template: "live", number: 2, isNew: true, rendered: "live"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.template == "" {
				tt.template = "old"
			}
			if tt.rendered == "" {
				tt.rendered = "old"
			}
			app := &api.Application{ObjectMeta: metav1.ObjectMeta{Name: "app"}, Status: api.ApplicationStatus{LatestRevision: tt.latest}}
			if tt.follows {
				app.Annotations = map[string]string{api.AnnotationAutoUpdate: "true"}
			}
			p := &plan.Plan{Definitions: plan.Definitions{api.KindComponent: {"worker": defined(tt.template)}}}
			r := &revisions{app: &application{object: app}, plan: p, hash: tt.hash, kept: tt.kept}
			r.chooseRevision()
			if got := p.Definitions[api.KindComponent]["worker"].Template(); r.number != tt.number || r.isNew != tt.isNew || (r.stored != nil) != tt.stored || got != tt.rendered {
				t.Errorf("number %d, new %t, stored %t, rendered by %q; want %d, %t, %t, %q", r.number, r.isNew, r.stored != nil, got, tt.number, tt.isNew, tt.stored, tt.rendered)
			}
		})
	}
}

// TestChosenByStatus holds the numbers of an application without kept revisions.
func TestChosenByStatus(t *testing.T) {
	for _, tt := range []struct {
		latest *api.RevisionName
		number int64
		isNew  bool
	}{
		{nil, 1, true}, {&api.RevisionName{Revision: 3, RevisionHash: "a"}, 3, false}, {&api.RevisionName{Revision: 3, RevisionHash: "b"}, 4, true},
	} {
		r := &revisions{app: &application{object: &api.Application{Status: api.ApplicationStatus{LatestRevision: tt.latest}}}, hash: "a"}
		if r.chooseByStatus(); r.number != tt.number || r.isNew != tt.isNew {
			t.Errorf("%+v: number %d, new %t; want %d, %t", tt.latest, r.number, r.isNew, tt.number, tt.isNew)
		}
	}
}
