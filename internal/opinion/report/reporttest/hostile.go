package reporttest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/recordtest"
)

// Hostile is a way to make a run directory do harm to who opens it.
type Hostile struct {
	Name string
	// Make changes a run directory that was sound. Outside is a file elsewhere that
	// must stay as it is, alone in its folder.
	Make func(dir record.Dir, outside string) error

	Judged bool // it gets a verdict nevertheless; any other is refused
	Sound  bool // its records and scenario are as they were: it may pass
	Heavy  bool // to read it takes seconds
}

// HostileRuns returns the corpus. Its directories are made of any sound run whose
// records and scenario it may replace.
func HostileRuns() []Hostile {
	return slices.Concat(evilFiles(), evilManifests(), evilTimes(), evilMasses(), []Hostile{evilNames()})
}

// replaceFile puts something else in the place of a file.
func replaceFile(name string, make func(path, outside string) error) func(record.Dir, string) error {
	return func(dir record.Dir, outside string) error {
		return errors.Join(os.RemoveAll(dir.File(name)), make(dir.File(name), outside))
	}
}

func linkFile(path, outside string) error { return os.Symlink(outside, path) }

func linkFolder(path, outside string) error { return os.Symlink(filepath.Dir(outside), path) }

func makePipe(path, _ string) error { return syscall.Mkfifo(path, 0o600) }

func makeFolder(path, _ string) error { return os.Mkdir(path, 0o700) }

// makeSparse is a file that says of itself to be a quarter of a terabyte.
func makeSparse(path, _ string) error {
	return errors.Join(os.WriteFile(path, []byte(recordtest.Header), 0o600), os.Truncate(path, 1<<38))
}

func writeFile(dir record.Dir, name string, content []byte) error {
	return os.WriteFile(dir.File(name), content, 0o600)
}

// editManifest changes what the manifest says.
func editManifest(change func(m map[string]any)) func(record.Dir, string) error {
	return func(dir record.Dir, _ string) error {
		raw, err := dir.Read(record.ManifestFile)
		if err != nil {
			return err
		}
		var m map[string]any
		if err := json.Unmarshal(raw, &m); err != nil {
			return err
		}
		change(m)
		return dir.WriteJSON(record.ManifestFile, m)
	}
}

// evilFiles are directories in which something lies that is no file, or is too large.
func evilFiles() (out []Hostile) {
	for _, name := range []string{record.ManifestFile, record.StreamFile, record.ScenarioFile} {
		for _, c := range []struct {
			what string
			make func(path, outside string) error
		}{{"a link", linkFile}, {"a pipe", makePipe}, {"a terabyte", makeSparse}, {"a folder", makeFolder}} {
			damaged := c.what == "a terabyte" && name == record.StreamFile // a head, and damage behind it
			out = append(out, Hostile{Name: c.what + " for " + name, Judged: damaged, Make: replaceFile(name, c.make)})
		}
	}
	for _, name := range []string{record.VerdictFile, record.SummaryFile, record.JUnitFile, record.ReportFile, "diagnosis.json", "." + record.JUnitFile + ".new"} {
		out = append(out,
			Hostile{Name: "a link for " + name, Judged: true, Sound: true, Make: replaceFile(name, linkFile)},
			Hostile{Name: "a pipe for " + name, Judged: true, Sound: true, Make: replaceFile(name, makePipe)})
	}
	return append(out,
		Hostile{Name: "links for folders", Judged: true, Sound: true, Make: func(dir record.Dir, outside string) error {
			var all error
			for _, name := range []string{"profiles", "kube-burner", "clusterloader2", record.LogFolder} {
				all = errors.Join(all, replaceFile(name, linkFolder)(dir, outside))
			}
			return all
		}},
		Hostile{Name: "a link for what an importer's results go to", Make: func(dir record.Dir, outside string) error {
			return errors.Join(replaceFile("kube-burner", linkFolder)(dir, outside), editManifest(func(m map[string]any) { m["imported"] = "kube-burner" })(dir, outside))
		}},
		Hostile{Name: "components elsewhere, and profiles that burst", Judged: true, Sound: true, Make: burstingProfile},
		Hostile{Name: "a scenario that grows", Make: func(dir record.Dir, _ string) error { return writeFile(dir, record.ScenarioFile, growingYAML()) }},
	)
}

// burstingProfile has a profile of a few kilobytes that unfolds to 64 MiB, and components
// whose names lead out of the directory.
func burstingProfile(dir record.Dir, outside string) error {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 64 {
		if _, err := z.Write(make([]byte, 1<<20)); err != nil {
			return err
		}
	}
	_, err := dir.Folder("profiles")
	return errors.Join(z.Close(), err, writeFile(dir, "profiles/etcd.block.pb.gz", bomb.Bytes()), editManifest(func(m map[string]any) {
		one := func(name string) map[string]any { return map[string]any{"name": name} }
		m["plane"] = map[string]any{"components": []any{one("../../../../etc/x"), one("etcd"), one("\x1b[2J")}}
	})(dir, outside))
}

// growingYAML is YAML whose anchors stand for 9^12 numbers.
func growingYAML() []byte {
	text := "scenario: x\nparameters:\n  a0: &a0 [1,1,1,1,1,1,1,1,1]\n"
	for i := 1; i < 12; i++ {
		text += fmt.Sprintf("  a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	return []byte(text)
}

// setMany sets so many parameters that no scenario has.
func setMany(n int) func(record.Dir, string) error {
	return editManifest(func(m map[string]any) {
		all := map[string]any{}
		for i := range n {
			all[fmt.Sprintf("parameter_p%06d", i)] = 1
		}
		m["parameters"] = all
	})
}

// manyParameters is a scenario that has many parameters of other names.
func manyParameters() []byte {
	var text strings.Builder
	text.WriteString("scenario: x\nparameters:\n")
	for i := range 20_000 {
		fmt.Fprintf(&text, "  parameter_q%06d: 1\n", i)
	}
	text.WriteString("steps: [{pause: 1s}]\n")
	return []byte(text.String())
}

// evilManifests say what no run says of itself.
func evilManifests() []Hostile {
	return []Hostile{
		{Name: "a format of tomorrow", Make: editManifest(func(m map[string]any) { m["format"] = 99 })},
		{Name: "numbers of no machine", Judged: true, Sound: true, Make: editManifest(func(m map[string]any) {
			m["fleet"] = map[string]any{"nodes": 1, "lease_seconds": 1e308, "renew_every_seconds": -1e308}
			m["started"] = "9998-01-02T03:00:00Z"
		})},
		{Name: "a deep manifest", Make: func(dir record.Dir, _ string) error {
			return writeFile(dir, record.ManifestFile, []byte(`{"format":2,"parameters":{"a":`+strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000)+"}}"))
		}},
		{Name: "parameters without number", Make: setMany(100_000)},
		{Name: "parameters that are near to many", Heavy: true, Make: func(dir record.Dir, outside string) error {
			return errors.Join(writeFile(dir, record.ScenarioFile, manyParameters()), setMany(100_000)(dir, outside))
		}},
		{Name: "a parameter at fault among many", Heavy: true, Make: func(dir record.Dir, outside string) error {
			return errors.Join(writeFile(dir, record.ScenarioFile, manyParameters()), setMany(150)(dir, outside))
		}},
	}
}

// evilNames are texts that a terminal, a spreadsheet or a browser would act on.
func evilNames() Hostile {
	const evil = "=cmd|'/c calc'!A1\x1b]0;x\a\x1b[2J\u009b2J\u202e<script>alert(1)</script>"
	return Hostile{Name: "names", Judged: true, Make: func(dir record.Dir, outside string) error {
		return errors.Join(streamOf(runOf(func(b *recordtest.Block) {
			b.Kind(recordtest.Op).Text("load", evil, evil, evil, evil, evil).Kind(recordtest.Call).Uint(0).Int(5, 5, 5).Uint(500<<2|1, 0, 0, 0)
			for _, what := range []string{"step-begin", "step-end", "death", "dirty", "warning"} {
				b.Event(5, what, evil, evil)
			}
			b.Kind(recordtest.Object).Text("pods", evil, evil, evil, evil).Kind(recordtest.Phase).Uint(0).Text(evil).Int(5)
			b.Kind(recordtest.Event).Int(10).Text("calls-failed", evil, evil, `{"failure":{"verb":"=1+1\u001b[2J","resource":"\u001b[2J","code":500,"count":1,"object":"\u001b[2J"}}`)
		}))(dir, outside), editManifest(func(m map[string]any) {
			m["scenario"], m["warnings"] = "=small\x1b[2J", []string{"\x1b]0;x\a"}
		})(dir, outside))
	}}
}
