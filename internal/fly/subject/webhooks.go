package subject

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/windtunnel/windtunnel/scenario"
)

// ErrNoWebhook says that an object names no service that serves a webhook.
var ErrNoWebhook = errors.New("it names no service of a webhook; a ValidatingWebhookConfiguration, a MutatingWebhookConfiguration or a CustomResourceDefinition with a conversion does")

// webhookManager is the field manager of what calls webhooks. It is not that of definitions:
// whoever applies the conversion of one alone would take the rest back.
const webhookManager = fieldManager + "-webhooks"

// IsConversion tells an object that has the API server convert objects by a webhook from
// one that has it ask a webhook for admission.
func (o Object) IsConversion() bool { return o.Kind == "CustomResourceDefinition" }

// CheckWebhook says whether an object names a service that serves a webhook: ErrNoWebhook.
func CheckWebhook(o Object) error {
	_, err := redirectWebhooks(o, "", nil)
	return err
}

// RedirectWebhooks returns objects in which the program serves each webhook in place of a
// service of a cluster, by its port for webhooks and its certificate.
func (p *Prepared) RedirectWebhooks(all []Object) (out []Object, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	authority, err := os.ReadFile(filepath.Join(p.vars[scenario.VarFiles], "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("subject %s: certificate for webhooks: %w", p.subject.Name, err)
	}
	for _, o := range all {
		redirected, err := redirectWebhooks(o, net.JoinHostPort("127.0.0.1", p.vars[scenario.VarWebhookPort]), authority)
		if err != nil {
			return nil, err
		}
		out = append(out, redirected)
	}
	return out, nil
}

// redirectWebhooks returns an object whose webhooks are at an address, HOST:PORT, where the
// object names services; authority is the certificate, in PEM, that the API server trusts.
func redirectWebhooks(o Object, address string, authority []byte) (Object, error) {
	var body map[string]any
	if err := json.Unmarshal(o.Body, &body); err != nil {
		return o, fmt.Errorf("%s: %w", o.Place, err)
	}
	redirected := 0
	for _, client := range webhookClients(o.Kind, body) {
		service, ok := client["service"].(map[string]any)
		if !ok {
			continue
		}
		path, _ := service["path"].(string)
		delete(client, "service")
		client["url"], client["caBundle"] = "https://"+address+"/"+strings.TrimPrefix(path, "/"), authority
		redirected++
	}
	if redirected == 0 {
		return o, fmt.Errorf("%s: %s %s: %w", o.Place, o.Kind, o.Name, ErrNoWebhook)
	}
	raw, err := json.Marshal(body)
	o.Body, o.manager = raw, webhookManager
	return o, err
}

// webhookClients returns the clientConfigs of an object.
func webhookClients(kind string, body map[string]any) (out []map[string]any) {
	add := func(o map[string]any) {
		if client, ok := o["clientConfig"].(map[string]any); ok {
			out = append(out, client)
		}
	}
	field := func(o map[string]any, name string) map[string]any {
		inner, _ := o[name].(map[string]any)
		return inner
	}
	switch kind {
	case "CustomResourceDefinition":
		add(field(field(field(body, "spec"), "conversion"), "webhook"))
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		all, _ := body["webhooks"].([]any)
		for _, one := range all {
			if o, ok := one.(map[string]any); ok {
				add(o)
			}
		}
	}
	return out
}
