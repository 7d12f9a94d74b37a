package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// stub prints what it was given, then ends with the code in STUB_CODE.
const stub = "#!/bin/sh\necho '### result'\nfor a; do echo \"<$a>\"; done\necho \"token=${INPUT_TOKEN-none}\"\nexit \"${STUB_CODE:-0}\"\n"

// The action's script downloads, checks, runs, and writes summary and outputs.
func TestAction(t *testing.T) {
	for name, tt := range map[string]struct {
		env     map[string]string
		spoil   bool   // the archive is not that of the sums
		machine string // that uname names, in place of this one
		code    int
		outputs []string
		summary []string
		said    string
		comment bool
	}{
		"pass": {
			env:     map[string]string{"INPUT_ARGUMENTS": "--set\nnodes=5\n"},
			outputs: []string{"exit-code=0", "verdict=pass", "directory=out"}, summary: []string{"### result", "<run>", "<scale.yaml>", "<--set>", "<nodes=5>", "token=none"},
		},
		"fail":          {env: map[string]string{"STUB_CODE": "1"}, code: 1, outputs: []string{"exit-code=1", "verdict=fail"}},
		"unknown":       {env: map[string]string{"STUB_CODE": "2"}, code: 2, outputs: []string{"exit-code=2", "verdict=unknown"}},
		"fault":         {env: map[string]string{"STUB_CODE": "3"}, code: 3, outputs: []string{"exit-code=3", "verdict=fault"}},
		"crash":         {env: map[string]string{"STUB_CODE": "139"}, code: 3, outputs: []string{"exit-code=3", "verdict=fault"}},
		"unknown is ok": {env: map[string]string{"STUB_CODE": "2", "INPUT_FAIL_ON": "fail fault"}, outputs: []string{"exit-code=2", "verdict=unknown"}},
		"ab":            {env: map[string]string{"INPUT_COMMAND": "ab"}, outputs: []string{"verdict=pass"}, summary: []string{"<ab>"}},
		"bisect": {
			env:     map[string]string{"INPUT_COMMAND": "bisect", "INPUT_ARGUMENTS": "--good\nversion=v0.16.0\n--bad\nversion=v0.17.0", "STUB_CODE": "1"},
			code:    1,
			outputs: []string{"verdict=fail"}, summary: []string{"<bisect>", "<--good>", "<version=v0.17.0>"},
		},
		"no splicing": {
			env:     map[string]string{"INPUT_SCENARIO": "a b.yaml; touch spliced", "INPUT_ARGUMENTS": "$(touch spliced)\n`touch spliced`\n* \"'"},
			outputs: []string{"verdict=pass"}, summary: []string{"<a b.yaml; touch spliced>", "<$(touch spliced)>", "<`touch spliced`>", "<* \"'>"},
		},
		"a flag as scenario": {env: map[string]string{"INPUT_SCENARIO": "--kubeconfig"}, outputs: []string{"verdict=pass"}, summary: []string{"<./--kubeconfig>"}},
		"changed archive":    {spoil: true, code: 3, outputs: []string{"verdict=fault"}, said: "the action expects"},
		"another machine":    {machine: "riscv64", code: 3, outputs: []string{"verdict=fault"}, said: "needs a Linux runner (amd64 or arm64), this one is Linux/riscv64"},
		"another command":    {env: map[string]string{"INPUT_COMMAND": "clean"}, code: 3, outputs: []string{"verdict=fault"}, said: "use run, ab or bisect"},
		"no scenario":        {env: map[string]string{"INPUT_SCENARIO": ""}, code: 3, outputs: []string{"verdict=fault"}, said: "scenario is empty"},
		"two lines":          {env: map[string]string{"INPUT_DIRECTORY": "a\nverdict=pass"}, code: 3, outputs: []string{"verdict=fault"}, said: "more than one line"},
		"comment":            {env: map[string]string{"INPUT_COMMENT": "true", "PULL_REQUEST": "7", "INPUT_TOKEN": "secret"}, outputs: []string{"verdict=pass"}, summary: []string{"token=none"}, comment: true},
		"no pull request":    {env: map[string]string{"INPUT_COMMENT": "true"}, outputs: []string{"verdict=pass"}, said: "not a pull request"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder, action, work := t.TempDir(), t.TempDir(), t.TempDir()
			archive := standIn(t, folder, stub)
			writeSumOf(t, folder, archive, action)
			if tt.spoil {
				standIn(t, folder, stub+"# changed\n")
			}
			server := httptest.NewServer(http.FileServer(http.Dir(folder)))
			defer server.Close()
			script, err := os.ReadFile("action/run.sh")
			if err != nil {
				t.Fatal(err)
			}
			gh := "#!/bin/sh\nfor a; do echo \"<$a>\"; done >\"" + work + "/gh.args\"\necho \"$GH_TOKEN\" >>\"" + work + "/gh.args\"\n"
			bin := t.TempDir()
			if tt.machine != "" {
				uname := "#!/bin/sh\n[ \"$1\" = -s ] && echo Linux || echo " + tt.machine + "\n"
				if err := os.WriteFile(filepath.Join(bin, "uname"), []byte(uname), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for path, text := range map[string]string{filepath.Join(action, "run.sh"): string(script), filepath.Join(action, "VERSION"): "0.1.0\n", filepath.Join(bin, "gh"): gh} {
				if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			c := exec.CommandContext(t.Context(), "bash", filepath.Join(action, "run.sh"))
			c.Dir = work
			c.Env = []string{
				"PATH=" + bin + ":" + os.Getenv("PATH"), "RUNNER_TEMP=" + t.TempDir(), "GITHUB_OUTPUT=" + work + "/output", "GITHUB_STEP_SUMMARY=" + work + "/summary",
				"GITHUB_REPOSITORY=o/r", "WINDTUNNEL_DOWNLOADS=" + server.URL, "INPUT_SCENARIO=scale.yaml", "INPUT_DIRECTORY=out",
			}
			for name, value := range tt.env {
				c.Env = append(c.Env, name+"="+value)
			}
			said, _ := c.CombinedOutput()
			if got := c.ProcessState.ExitCode(); got != tt.code || !strings.Contains(string(said), tt.said) {
				t.Errorf("exit code %d, not %d\n%s", got, tt.code, said)
			}
			outputs, _ := os.ReadFile(work + "/output")
			for _, want := range tt.outputs {
				if !strings.Contains("\n"+string(outputs), "\n"+want+"\n") {
					t.Errorf("outputs %q lack %q", outputs, want)
				}
			}
			if n := strings.Count(string(outputs), "verdict="); n != 1 {
				t.Errorf("%d verdicts in %q", n, outputs)
			}
			summary, _ := os.ReadFile(work + "/summary")
			for _, want := range tt.summary {
				if !strings.Contains(string(summary), want+"\n") {
					t.Errorf("the summary lacks %q:\n%s", want, summary)
				}
			}
			if _, err := os.Stat(work + "/spliced"); err == nil {
				t.Error("an input was run by the shell")
			}
			args, _ := os.ReadFile(work + "/gh.args")
			if tt.comment != bytes.Contains(args, []byte("<pr>\n<comment>\n<7>\n")) || tt.comment != bytes.Contains(args, []byte("secret")) {
				t.Errorf("gh got %q", args)
			}
		})
	}
}

// Inputs and what comes with an event reach a script as environment variables only.
func TestNothingIsSplicedIntoScripts(t *testing.T) {
	paths, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(paths) < 4 {
		t.Fatalf("%v, %v", paths, err)
	}
	block := regexp.MustCompile(`(?m)^( *)(?:- )?run: (\|\n(?:(?:(?:\x20+.*)?)\n)*?(?:\x20*(?:- |[a-z-]+:)|\z)|.*$)`)
	for _, path := range append(paths, "action/action.yml") {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, script := range block.FindAllString(string(raw), -1) {
			if strings.Contains(script, "${{") {
				t.Errorf("%s: an expression stands in a script:\n%s", path, script)
			}
		}
	}
}

// actionlint is the version that reads the workflows. It cannot share a module with nfpm: they
// need different versions of one YAML library.
const actionlint = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"

func TestWorkflows(t *testing.T) {
	paths, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(paths) < 4 {
		t.Fatalf("%v, %v", paths, err)
	}
	bin := t.TempDir()
	get := exec.CommandContext(t.Context(), "go", "install", actionlint)
	get.Env = append(os.Environ(), "GOBIN="+bin, "GOFLAGS=")
	if said, err := get.CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%v\n%s", err, said)
		}
		t.Skipf("actionlint cannot be built: %v\n%s", err, said)
	}
	said, err := exec.CommandContext(t.Context(), filepath.Join(bin, "actionlint"), append([]string{"-no-color", "-shellcheck=", "-pyflakes="}, paths...)...).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	bad := filepath.Join(t.TempDir(), "bad.yml")
	if err := os.WriteFile(bad, []byte("on: push\njobs: {a: {runs-on: ubuntu-24.04, steps: [{run: true, usess: x}]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if exec.CommandContext(t.Context(), filepath.Join(bin, "actionlint"), bad).Run() == nil {
		t.Error("a workflow with an unknown key passed")
	}
}
