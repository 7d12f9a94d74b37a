package compare

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Difference is a fact about runs that is not the same on both sides.
type Difference struct {
	Fact  string `json:"fact"` // "parameter rate", "version kubernetes", "kube-apiserver --max-requests-inflight"
	A     string `json:"a"`
	B     string `json:"b"`
	Asked bool   `json:"asked"` // it was to be compared
}

// What a run directory's arguments have of this one run: its folder and ports.
var (
	runFolder = regexp.MustCompile(`[^ =,]*/windtunnel-run-[0-9]+`)
	localPort = regexp.MustCompile(`(127\.0\.0\.1|localhost):[0-9]+`)
	ownPort   = regexp.MustCompile(`^(--[a-z-]*port)=[0-9]+$`)
)

// MachineFacts are those that latencies, CPU and memory depend on so much that
// figures of two such machines are not compared.
func MachineFacts(m record.Machine) map[string]string {
	return map[string]string{
		"machine cores": fmt.Sprint(m.Cores), "machine cpu": m.CPU, "machine arch": m.Arch,
		"machine memory": unit.Bytes(m.MemoryBytes).Human(),
	}
}

// listFacts lists all of a manifest that a figure may depend on.
func listFacts(r Run) map[string]string {
	m := r.Manifest
	out := MachineFacts(m.Machine)
	out["machine kernel"], out["machine os"], out["machine cgroup"] = m.Machine.Kernel, m.Machine.OS, m.Machine.Cgroup
	out["plane kind"], out["plane durability"], out["plane data on"] = m.Plane.Kind, m.Plane.Durability, m.Plane.DataOn
	out["fleet nodes"] = fmt.Sprint(m.Fleet.Nodes)
	out["fleet lease"] = unit.Seconds(m.Fleet.LeaseSeconds)
	out["fleet renews every"] = unit.Seconds(m.Fleet.RenewEverySeconds)
	out["fleet posts conditions every"] = unit.Seconds(m.Fleet.StatusEverySeconds)
	out["fleet heartbeat stretched"] = fmt.Sprint(m.Fleet.StretchedHeartbeat)
	for name, v := range m.Parameters {
		out["parameter "+name] = formatParameter(v)
	}
	for name, v := range m.Versions {
		out["version "+name] = v
	}
	for _, c := range m.Processes() {
		addComponent(out, c, m.Seed)
	}
	if whole, limited := m.Plane.Whole(); limited {
		addComponent(out, whole, m.Seed)
	}
	return out
}

// formatParameter writes a parameter as a scenario has it: large numbers in full.
func formatParameter(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}

// addComponent adds a process's arguments, environment and limits, without what
// is of this one run only. A run's own seed is compared as such.
func addComponent(out map[string]string, c record.ComponentFact, seed uint64) {
	for _, arg := range slices.Concat(c.Args, c.Env) {
		arg = runFolder.ReplaceAllString(arg, "<run>")
		arg = localPort.ReplaceAllString(arg, "$1:<port>")
		arg = ownPort.ReplaceAllString(arg, "$1=<port>")
		name, value, _ := strings.Cut(arg, "=")
		if strings.HasSuffix(name, "seed") && value == strconv.FormatUint(seed, 10) {
			value = "<seed>"
		}
		key := c.Name + " " + name
		if old, twice := out[key]; twice {
			value = old + " " + value
		}
		out[key] = value
	}
	out[c.Name+" runs"] = "true"
	out[c.Name+" cpu limit"] = unit.Number(c.CPULimit)
	out[c.Name+" memory limit"] = unit.Bytes(c.MemoryLimit).Human()
	out[c.Name+" limits in force"] = fmt.Sprint(c.Limited)
}

// listDifferences names every fact that is not the same in all runs of both sides,
// and counts those that are. Seeds may differ from run to run as long as both
// sides have the same ones.
func listDifferences(a, b []Run, asked []string) (out []Difference, equal int) {
	all := map[string][2]map[string]bool{}
	for _, runs := range [][]Run{a, b} {
		for _, r := range runs {
			for fact := range listFacts(r) {
				if _, known := all[fact]; !known {
					all[fact] = [2]map[string]bool{{}, {}}
				}
			}
		}
	}
	for side, runs := range [][]Run{a, b} {
		for _, r := range runs {
			of := listFacts(r)
			for fact := range all {
				v, known := of[fact]
				if !known {
					v = "–"
				}
				all[fact][side][v] = true
			}
		}
	}
	for _, fact := range slices.Sorted(maps.Keys(all)) {
		values := all[fact]
		if len(values[0]) == 1 && maps.Equal(values[0], values[1]) {
			equal++
			continue
		}
		out = append(out, Difference{Fact: fact, A: joinValues(values[0]), B: joinValues(values[1]), Asked: slices.Contains(asked, fact)})
	}
	if x, y := seedsText(a), seedsText(b); x != y {
		out = append(out, Difference{Fact: "seeds", A: x, B: y})
	}
	if d, ok := scenarioLine(a, b); ok {
		out = append(out, d)
	}
	return out, equal
}

// joinValues joins the values of a side.
func joinValues(values map[string]bool) string {
	var out []string
	for _, v := range slices.Sorted(maps.Keys(values)) {
		if v == "" {
			v = "none"
		}
		out = append(out, v)
	}
	return strings.Join(out, " or ")
}

func seedsText(runs []Run) string {
	var out []uint64
	for _, r := range runs {
		out = append(out, r.Manifest.Seed)
	}
	slices.Sort(out)
	return strings.Trim(fmt.Sprint(slices.Compact(out)), "[]")
}

// scenarioLine finds the one line in which two scenarios differ.
func scenarioLine(a, b []Run) (Difference, bool) {
	for _, x := range slices.Concat(a, b) {
		if i := differingLines(a[0].Scenario, x.Scenario); len(i) == 1 {
			from, to := strings.Split(a[0].Scenario, "\n"), strings.Split(x.Scenario, "\n")
			return Difference{Fact: fmt.Sprintf("scenario line %d", i[0]+1), A: strings.TrimSpace(from[i[0]]), B: strings.TrimSpace(to[i[0]])}, true
		}
	}
	return Difference{}, false
}

// differingLines returns the lines, from 0, that two texts of as many lines differ
// in; all of them where the numbers differ. Unknown texts do not differ.
func differingLines(a, b string) []int {
	var out []int
	if a == b || a == "" || b == "" {
		return nil
	}
	from, to := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(from), len(to)) {
		if len(from) != len(to) || from[i] != to[i] {
			out = append(out, i)
		}
	}
	return out
}

// SameMachine says whether figures of two runs may be held against each other:
// whether their machines are the same in what latency, CPU and memory depend on.
func SameMachine(a, b Run) bool {
	return maps.Equal(MachineFacts(a.Manifest.Machine), MachineFacts(b.Manifest.Machine))
}
