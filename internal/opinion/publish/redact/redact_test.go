package redact_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/publish/redact"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"dial tcp 10.1.2.3:6443: refused", "dial tcp 198.18.0.1:6443: refused"},
		{"from 10.1.2.3 to 10.1.2.4 and 10.1.2.3", "from 198.18.0.1 to 198.18.0.2 and 198.18.0.1"},
		{"--listen=https://127.0.0.1:2379 0.0.0.0 [::1]:80", "--listen=https://127.0.0.1:2379 0.0.0.0 [::1]:80"},
		{"at fe80::1ff:fe23:4567:890a, 2001:470:0:1:2:3:4:5", "at 2001:db8::1, 2001:db8::2"},
		{"12:30:45, version 1.37.1, sha256:ab12:cd", "12:30:45, version 1.37.1, sha256:ab12:cd"},
		{"198.18.0.7 is nobody's", "198.18.0.7 is nobody's"},
		{"https://api.prod.acme.com:6443/readyz", "https://host-1.invalid:6443/readyz"},
		{"https://kubernetes.default.svc/x https://localhost:1/y", "https://kubernetes.default.svc/x https://localhost:1/y"},
		{"node ip-10-0-3-7.eu-west-1.compute.internal is ready", "node host-1.invalid is ready"},
		{"coredns.kube-system.svc.cluster.local", "coredns.kube-system.svc.cluster.local"},
		{"mail jane.doe@acme.com", "mail user-1@host.invalid"},
		{"--data-dir=/tmp/windtunnel-run-41/etcd", "--data-dir=/path-1/windtunnel-run-41/etcd"},
		{"/home/jane/go/bin/windtunnel run /home/jane/x.yaml", "/path-1/windtunnel run /path-2/x.yaml"},
		{"open /home/jane/secret-project/x.yaml: no such file", "open /path-1/x.yaml: no such file"},
		{"GET /api/v1/namespaces/default/pods and /proc/self/stat", "GET /api/v1/namespaces/default/pods and /proc/self/stat"},
		{`C:\Users\jane\bin\windtunnel.exe`, `/path-1windtunnel.exe`},
		{"https://jane:hunter2@localhost/", "https://xxxxxxxxxxxx@localhost/"},
		{"Authorization: Bearer abcdefgh12345", "Authorization: Bearer xxxxxxxxxxxxx"},
		{"--token=abc123def PASSWORD: hunter2", "--token=xxxxxxxxx PASSWORD: xxxxxxx"},
		{"secrets: 5, token: ${x}, --token-auth-file=tokens.csv", "secrets: 5, token: ${x}, --token-auth-file=tokens.csv"},
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJqYW5lIn0.abc_def", "xxxxxxxxxxxxxxxx"},
		{"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "xxxxxxxxxxxxxxxx"},
		{`{"text":"died\n10.1.2.3 is gone","count":2}`, `{"count":2,"text":"died\n198.18.0.1 is gone"}`},
		{"on buildbox-7 again", "on given-1 again"},
	} {
		if got := redact.New("buildbox-7", "").Text(c.text); got != c.want {
			t.Errorf("%q\n got %q\nwant %q", c.text, got, c.want)
		}
		if again := redact.New().Text(c.want); again != c.want {
			t.Errorf("%q is taken for something again: %q", c.want, again)
		}
	}
}

// TestScenario keeps the shape of a scenario: the lines, and the length of Secrets.
func TestScenario(t *testing.T) {
	const text = `scenario: x
bodies:
  a:
    text: |
      kind: Secret
      metadata: {name: "s-{{.Index}}"}
      data:
        user: amFuZQ==
        long: "aHVudGVyMg=="
        made: "{{ b64 .Index }}"
      type: Opaque
  b:
    text: "{apiVersion: v1, kind: Secret, stringData: {a: hunter2, b: 'jane d'}}"
steps:
- {pause: 1s}
`
	r := redact.New()
	r.Begin("scenario.yaml")
	got := r.Scenario(text)
	for _, gone := range []string{"amFuZQ", "aHVudGVy", "hunter2", "jane"} {
		if strings.Contains(got, gone) {
			t.Errorf("%s is still there:\n%s", gone, got)
		}
	}
	for _, kept := range []string{"user: AAAAAA==\n", `"{{ b64 .Index }}"`, "type: Opaque", "- {pause: 1s}", "s-{{.Index}}"} {
		if !strings.Contains(got, kept) {
			t.Errorf("%s is gone:\n%s", kept, got)
		}
	}
	if len(got) != len(text) {
		t.Errorf("%d bytes, want %d", len(got), len(text))
	}
	want := []redact.Removed{{File: "scenario.yaml", Class: redact.Secret, Times: 4, Values: 4}}
	if removed := r.Removed(); !slices.Equal(removed, want) {
		t.Errorf("%v, want %v", removed, want)
	}
}
