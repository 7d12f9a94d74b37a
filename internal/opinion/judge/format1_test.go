package judge_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/judge"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestRunsOfFormat1 judges runs that a version with records of format 1 flew: a
// density test, machines of the VM plane, and a run that a step ended. Verdicts
// and figures are what that version gave, but for words; diagnoses are what is
// found today in what it measured.
func TestRunsOfFormat1(t *testing.T) {
	for _, name := range []string{"density", "vm", "failed"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept := filepath.Join("testdata", "format1", name)
			dir := record.Dir(filepath.Join(t.TempDir(), "run"))
			repotest.NoError(t, os.CopyFS(string(dir), os.DirFS(kept)))
			if _, err := judge.Write(string(dir)); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{record.VerdictFile, "diagnosis.json"} {
				was := read(t, filepath.Join(kept, file))
				if file == record.VerdictFile {
					was = reworded(t, was)
				}
				was = strings.NewReplacer(`"sli": "life"`, `"sli": "lifecycle"`, `"life": "vmi"`+"\n", `"lifecycle": "vmi"`+"\n",
					`"life": "vmi",`+"\n        \"phase\"", `"lifecycle": "vmi",`+"\n        \"phase\"").Replace(was)
				if want, got := decode(t, was), withoutFailedCalls(t, decode(t, read(t, dir.File(file)))); !reflect.DeepEqual(got, want) {
					t.Errorf("%s is not what it was:\n%s", file, read(t, dir.File(file)))
				}
			}
			summary := read(t, dir.File(record.SummaryFile))
			if says := map[string]string{"density": " PASS\n", "vm": " PASS\n", "failed": "The run failed: step crashing: fleet: crash:"}[name]; !strings.Contains(summary, says) {
				t.Errorf("the summary does not say %q:\n%s", says, summary)
			}
		})
	}
}

// withoutFailedCalls takes the objective out of a verdict that scenarios have had
// only since: none of these runs' calls failed.
func withoutFailedCalls(t *testing.T, verdict any) any {
	t.Helper()
	top, some := verdict.(map[string]any)
	if !some {
		return verdict // a diagnosis
	}
	all := top["objectives"].([]any)
	top["objectives"] = slices.DeleteFunc(all, func(x any) bool {
		o := x.(map[string]any)
		if o["sli"] != slo.FailedCalls {
			return false
		}
		if o["verdict"] != "pass" || o["value"] != 0.0 || o["samples"] == 0.0 {
			t.Errorf("failed calls: %v", o)
		}
		return true
	})
	return verdict
}

// reworded is a verdict of any version in today's words.
func reworded(t *testing.T, text string) string {
	t.Helper()
	var j slo.Judgement
	repotest.NoError(t, json.Unmarshal([]byte(text), &j))
	// That a class of calls was not made is no longer a note of every run.
	j.Reasons = slices.DeleteFunc(j.Reasons, func(r string) bool { return strings.HasPrefix(r, "No call was made that counts as ") })
	raw := repotest.Must(json.MarshalIndent(j, "", "  "))(t)
	return string(raw)
}

func decode(t *testing.T, text string) (v any) {
	t.Helper()
	repotest.NoError(t, json.Unmarshal([]byte(text), &v))
	return v
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw := repotest.Must(os.ReadFile(path))(t)
	return string(raw)
}
