package endpoint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// plugin writes a kubeconfig whose credentials a program makes: token-1 the first
// time, token-2 the next, which expire at a time, if any.
func plugin(t *testing.T, expires string) endpoint.Endpoint {
	t.Helper()
	dir := t.TempDir()
	script := filepath.Join(dir, "plugin")
	if expires != "" {
		expires = `,"expirationTimestamp":"` + expires + `"`
	}
	text := fmt.Sprintf(`#!/bin/sh
echo x >> %[1]s/runs
n=$(wc -l < %[1]s/runs | tr -d ' ')
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"token-'$n'"%[2]s}}'
`, dir, expires)
	repotest.NoError(t, os.WriteFile(script, []byte(text), 0o700))
	return read(t, fmt.Sprintf("exec: {apiVersion: client.authentication.k8s.io/v1, command: %s, interactiveMode: Never}", script))
}

// read reads a kubeconfig with a user.
func read(t *testing.T, user string) endpoint.Endpoint {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {%s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, user)
	repotest.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return repotest.Must(endpoint.FromKubeconfig(file, ""))(t)
}

func authorization(t *testing.T, e endpoint.Endpoint) string {
	t.Helper()
	return repotest.Must(e.Authorization())(t)
}

// TestPluginRunsWhenItsCredentialsAreRefused: once, however many clients say so.
func TestPluginRunsWhenItsCredentialsAreRefused(t *testing.T) {
	e := plugin(t, "")
	if !e.Renewable() {
		t.Error("not renewable")
	}
	first := authorization(t, e)
	if first != "Bearer token-1" || authorization(t, e) != first {
		t.Errorf("credentials are %q, then %q", first, authorization(t, e))
	}
	for range 2 {
		repotest.NoError(t, e.Renew(first))
		if got := authorization(t, e); got != "Bearer token-2" {
			t.Errorf("renewed: %q", got)
		}
	}
}

func TestPluginRunsWhenItsCredentialsExpire(t *testing.T) {
	e := plugin(t, time.Now().Add(-time.Minute).Format(time.RFC3339))
	if first, second := authorization(t, e), authorization(t, e); first != "Bearer token-1" || second != "Bearer token-2" {
		t.Errorf("credentials are %q, then %q", first, second)
	}
}

func TestTokenFileIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	repotest.NoError(t, os.WriteFile(file, []byte("zero"), 0o600))
	e := read(t, "tokenFile: "+file)
	for _, token := range []string{"one", "two"} {
		repotest.NoError(t, os.WriteFile(file, []byte(token), 0o600))
		if got := authorization(t, e); got != "Bearer "+token {
			t.Errorf("credentials are %q, want %s", got, token)
		}
	}
	if !e.Renewable() {
		t.Error("not renewable")
	}
}

func TestImpersonationOfTheKubeconfig(t *testing.T) {
	e := read(t, "token: t, as: jane, as-groups: [a, b]")
	header, err := e.Impersonation()
	if err != nil || header.Get("Impersonate-User") != "jane" || fmt.Sprint(header.Values("Impersonate-Group")) != "[a b]" || len(header) != 2 {
		t.Errorf("%v, %v", header, err)
	}
	if e.Renewable() {
		t.Error("a token that stands in the file is renewable")
	}
}
