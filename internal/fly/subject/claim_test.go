package subject_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/subject"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

const (
	mapPath  = "/api/v1/namespaces/default/configmaps/m"
	mapBody  = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: theirs no more}\n"
	adopted  = "configmaps/default/m"
	theirs   = "theirs"
	foreigns = `apply ConfigMap m: it exists already, and this run has not made it: it is left alone; --adopt configmaps/default/m lets the run change it for good`
)

// TestClaim brings an object to a cluster where one of that name may stand, and
// where the answer to its creation may be lost.
func TestClaim(t *testing.T) {
	for name, tt := range map[string]struct {
		there bool   // an object of somebody else
		stamp string // that it carries
		adopt []string
		fault *apitest.Injection // of the first creation

		want, data string
		stamped    bool
	}{
		"nothing there":             {data: "theirs no more", stamped: true},
		"another's":                 {there: true, want: foreigns, data: theirs},
		"of another run":            {there: true, stamp: "r2", want: foreigns, data: theirs},
		"adopted":                   {there: true, adopt: []string{adopted}, data: "theirs no more"},
		"another is adopted":        {there: true, adopt: []string{"configmaps/default/n"}, want: foreigns, data: theirs},
		"of an earlier try":         {there: true, stamp: "r1", data: "theirs no more", stamped: true},
		"done, and the answer lost": {fault: &apitest.Injection{Done: true}, data: "theirs no more", stamped: true},
		"refused, then done":        {fault: &apitest.Injection{Code: http.StatusTooManyRequests}, data: "theirs no more", stamped: true},
		"refused, and another's":    {there: true, fault: &apitest.Injection{Code: http.StatusTooManyRequests}, want: foreigns, data: theirs},
	} {
		t.Run(name, func(t *testing.T) {
			s := apitest.New(t, apitest.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true})
			if tt.there {
				o := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"a": theirs}}
				if tt.stamp != "" {
					o.Labels = map[string]string{object.RunLabel: tt.stamp}
				}
				s.Add(mapPath, o)
			}
			before := s.Get(mapPath)
			var once sync.Once
			s.Inject(func(r *http.Request) (f *apitest.Injection) {
				if r.Method == http.MethodPost {
					once.Do(func() { f = tt.fault })
				}
				return f
			})
			i := subject.NewInstaller(apitest.Client(t, s.Endpoint(), clock.Start()), subject.Owner{Stamp: object.Stamp{Run: "r1"}, Adopt: tt.adopt})
			err := i.Apply(t.Context(), decoded(t, mapBody))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			o := s.Get(mapPath)
			if data, _ := o.Object["data"].(map[string]any); data["a"] != tt.data {
				t.Errorf("there is %v", o.Object)
			}
			if got := o.GetLabels()[object.RunLabel] == "r1"; got != tt.stamped {
				t.Errorf("labels %v", o.GetLabels())
			}
			if tt.want != "" && o.GetResourceVersion() != before.GetResourceVersion() {
				t.Error("somebody else's object was written")
			}
		})
	}
}
