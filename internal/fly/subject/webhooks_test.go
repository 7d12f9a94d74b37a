package subject_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/fly/subject"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// webhooks are as kubebuilder writes them: two kinds of admission, and the conversion that
// Kustomize adds to a definition.
const webhooks = `apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: defaults}
webhooks:
- {name: a.example.org, timeoutSeconds: 10, clientConfig: {service: {name: webhook-service, namespace: system, path: /mutate-widget, port: 443}}}
- {name: b.example.org, clientConfig: {url: "https://elsewhere:8443/b", caBundle: b3duCg==}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: checks}
webhooks:
- {name: c.example.org, clientConfig: {service: {name: webhook-service, namespace: system}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec: {conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: webhook-service, namespace: system, path: /convert}}}}}
`

func decode(t *testing.T, text string) []subject.Object {
	t.Helper()
	return repotest.Must(subject.Decode("webhooks.yaml", []byte(text)))(t)
}

// The API server calls the program in place of a service, and trusts its certificate. What
// names an address of its own is left alone.
func TestRedirectWebhooks(t *testing.T) {
	p := prepare(t, attached(t), scenario.Subject{})
	all, err := p.RedirectWebhooks(decode(t, webhooks))
	if err != nil || len(all) != 3 || all[0].IsConversion() || all[1].IsConversion() || !all[2].IsConversion() {
		t.Fatalf("%+v, %v", all, err)
	}
	type client struct {
		URL      string
		CABundle []byte
		Service  any
	}
	var clients []client
	for _, o := range all {
		var body struct {
			Webhooks []struct{ ClientConfig client }
			Spec     struct {
				Conversion struct {
					Strategy string
					Webhook  struct{ ClientConfig client }
				}
			}
		}
		repotest.NoError(t, json.Unmarshal(o.Body, &body))
		for _, w := range body.Webhooks {
			clients = append(clients, w.ClientConfig)
		}
		if body.Spec.Conversion.Strategy == "Webhook" {
			clients = append(clients, body.Spec.Conversion.Webhook.ClientConfig)
		}
	}
	first, err := url.Parse(clients[0].URL)
	if err != nil || first.Hostname() != "127.0.0.1" || first.Port() == "" {
		t.Fatalf("%+v, %v", clients[0], err)
	}
	for i, want := range []string{"/mutate-widget", "", "/", "/convert"} {
		c := clients[i]
		if want == "" {
			if c.URL != "https://elsewhere:8443/b" || string(c.CABundle) != "own\n" {
				t.Errorf("an address of its own became %+v", c)
			}
			continue
		}
		if c.URL != "https://"+first.Host+want || c.Service != nil || !x509.NewCertPool().AppendCertsFromPEM(c.CABundle) {
			t.Errorf("%s: %+v", want, c)
		}
	}
}

// A file that calls no webhook is refused before anything is started.
func TestNoWebhook(t *testing.T) {
	for name, text := range map[string]string{
		"another kind":          "apiVersion: v1\nkind: Service\nmetadata: {name: webhook-service}\n",
		"no conversion":         "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\nspec: {}\n",
		"no webhooks":           "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: a}\n",
		"an address of its own": "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: a}\nwebhooks: [{clientConfig: {url: \"https://a\"}}]\n",
		"another form":          "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: a}\nwebhooks: {a: b}\n",
	} {
		if err := subject.CheckWebhook(decode(t, text)[0]); !errors.Is(err, subject.ErrNoWebhook) || !strings.Contains(err.Error(), "webhooks.yaml: document 1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, o := range decode(t, webhooks) {
		if err := subject.CheckWebhook(o); err != nil {
			t.Errorf("%s: %v", o.Kind, err)
		}
	}
}

// managers notes who applies what.
type managers struct {
	server *server
	seen   []string
}

func (m *managers) Do(ctx context.Context, req *wire.Request) (*wire.Response, error) {
	if _, query, ok := strings.Cut(req.Path, "fieldManager="); ok {
		m.seen = append(m.seen, query)
	}
	return m.server.Do(ctx, req)
}

// A definition and its conversion are applied by two managers: the second leaves the rest of
// the definition alone.
func TestConversionIsApplied(t *testing.T) {
	p := prepare(t, attached(t), scenario.Subject{})
	conversions := repotest.Must(p.RedirectWebhooks(decode(t, webhooks)[2:]))(t)
	synctest.Test(t, func(t *testing.T) {
		m := &managers{server: newServer()}
		i := subject.NewInstaller(m, subject.Owner{})
		repotest.NoError(t, i.Apply(t.Context(), decode(t, "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.org}\nspec: {group: example.org}\n")))
		repotest.NoError(t, i.Apply(t.Context(), conversions))
		if strings.Join(m.seen, " ") != "windtunnel windtunnel-webhooks" {
			t.Errorf("applied by %q", m.seen)
		}
	})
}
