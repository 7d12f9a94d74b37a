package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
)

// What a server or a run directory says reaches a terminal as letters only.
func TestErrorsSteerNoTerminal(t *testing.T) {
	var said bytes.Buffer
	env := &environment{stdout: &said, stderr: text.NewScreen(&said)}
	if code := executeVerb(t.Context(), env, []string{"judge", "no\x1b]0;title\a/such\r\x1b[2Jrun"}); code != exitFault {
		t.Error(code)
	}
	if got := said.String(); strings.ContainsAny(got, "\x1b\a\r") || !strings.Contains(got, "\ufffd]0;title\ufffd/such\ufffd\ufffd[2Jrun") {
		t.Errorf("%q", got)
	}
}

// TestVerbsSteerNoTerminal calls each verb that reads what somebody else has made, as the process
// does whose stdout is read through a pipe. All that it says for people is letters.
func TestVerbsSteerNoTerminal(t *testing.T) {
	const evil = "x\x1b]0;title\a\x1b[2J\u009b2J\u202e\x00"
	folder := t.TempDir()
	if err := errors.Join(makeRuns(folder), makeSides(folder), makeGrown(folder), makePublished(folder)); err != nil {
		t.Fatal(err)
	}
	for _, h := range reporttest.HostileRuns() {
		if h.Name == "names" {
			if err := h.Make(record.Dir(filepath.Join(folder, "pass")), filepath.Join(folder, "outside")); err != nil {
				t.Fatal(err)
			}
		}
	}
	at := func(name string) string { return filepath.Join(folder, name) }
	scenarioOf := "scenario: " + strconv.Quote(evil) + "\nsteps: [{name: " + strconv.Quote(evil) + ", exec: {command: [" + strconv.Quote(evil) + "]}}, {pause: 1s}]\n"
	for name, content := range map[string]string{
		"evil.yaml": scenarioOf, "evil.json": `{"scenario": "\u001b[2J", "state": "\u001b[2J"}`, "raw.yaml": "scenario: " + evil + "\n",
		"field.yaml": strconv.Quote(evil) + ": 1\n", "evil.wtb": evil, "manifest.yaml": "apiVersion: \"\\e[2J\"\nkind: \"\\e[2J\"\n",
	} {
		if err := os.WriteFile(at(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range slices.Concat(reading(folder, record.Dir(at("pass"))), [][]string{
		{"judge", at("pass")}, {"judge", at("pass"), "--output", "markdown"}, {"judge", at("pass"), "--output", "github"},
		{"compare", at("fail"), at("pass")}, {"compare", "--all", at("fail"), at("pass")}, {"compare", "--output", "markdown", at("fail"), at("pass")},
		{"history", "--file", at("history.json"), "--every"}, {"history", "--file", at("evil.json")},
		{"capacity", at("pass"), at("fail")}, {"capacity", at("evil.json")}, {"export", "junit", at("pass")},
		{"verify", at("evil.wtb")}, {"verify", at("pass")}, {"site", folder, "-o", at("site.html")}, {"reproduce", at("evil.wtb"), "--plan"}, {"publish", at("pass"), "-o", at("own.wtb")},
		{"run", "--plan", at("evil.yaml")}, {"run", "--plan", at("raw.yaml")}, {"validate", at("evil.yaml"), at("raw.yaml"), at("field.yaml"), at(evil)},
		{"import", at("field.yaml")}, {"stage", "test", at("manifest.yaml")}, {"fleet", "--config", at("manifest.yaml")}, {"hollow", "--load", at("manifest.yaml")},
		{"trace", at("evil.json")}, {"doctor"}, {"examples", evil}, {"init", evil}, {evil}, {"serve", at("absent" + "\x1b")}, {"clean", "--kubeconfig", at("raw.yaml")},
	}) {
		said := at("said")
		out, err := os.Create(said)
		if err != nil {
			t.Fatal(err)
		}
		env := newEnvironment(os.Stdin, out, out)
		guard.Verb(env.stderr, func() int { return executeVerb(t.Context(), env, args) })
		raw, err := os.ReadFile(said)
		if err = errors.Join(err, out.Close()); err != nil || steers(string(raw)) {
			t.Errorf("%q: %v, %q", args, err, raw)
		}
	}
}
