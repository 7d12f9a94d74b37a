package planes_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// claim is one sentence of a published report, and what is known of it here.
type claim struct {
	ID      string
	Says    string   // in our words
	State   string   // one of states
	Command string   // windtunnel run or ab, as a user types it
	Stated  []string // what the command's scenario says, but for spaces: of claims about how the report's test was set up
	Kept    string   // the file of a flight, below experiments/
	Found   string   // what stands in that file, but for spaces
	Outcome string   // what the flight says
	Model   string   // what of it is no real process or machine
	Needs   string   // what has to come before it is shown
}

// states say how far a claim is shown, from all the way to not at all.
var states = []string{"shown", "smaller", "projected", "missing"}

// reports are the planes with a report, the prefix of its claims, their number, and the
// page of docs/how-to that has their table.
var reports = []struct {
	plane, prefix, page string
	claims              int
}{
	{"app", "R", "reproducing-kubevela-assessment.md", 86},
	{"clusters", "S", "reproducing-kosmos.md", 23},
	{"edge", "K", "reproducing-kubeedge-100k.md", 69},
	{"vm", "V", "reproducing-kubevirt-density.md", 45},
}

// readClaims reads the claims of a plane's report.
func readClaims(t *testing.T, plane string) []claim {
	t.Helper()
	raw := repotest.Must(os.ReadFile(filepath.Join(plane, "claims.yaml")))(t)
	var file struct {
		Report string
		Claims []claim
	}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		t.Fatalf("%s/claims.yaml: %v", plane, err)
	}
	return file.Claims
}

// arms returns the scenario file of a command and the parameters of each flight that it
// stands for: one of run, two of ab.
func arms(command string) (file string, sets []map[string]string, err error) {
	words := strings.Fields(command)
	if len(words) < 3 || words[0] != "windtunnel" || words[1] != "run" && words[1] != "ab" {
		return "", nil, fmt.Errorf("%q is neither windtunnel run nor windtunnel ab", command)
	}
	both, a, b := map[string]string{}, map[string]string{}, map[string]string{}
	for i := 3; i < len(words); i += 2 {
		if i+1 == len(words) {
			return "", nil, fmt.Errorf("%q: %s has no value", command, words[i])
		}
		key, value, ok := strings.Cut(words[i+1], "=")
		switch arm := map[string]map[string]string{"--set": both, "--a": a, "--b": b}[words[i]]; {
		case words[i] == "--repeats":
		case arm == nil || !ok:
			return "", nil, fmt.Errorf("%q: %s %s is no parameter", command, words[i], words[i+1])
		default:
			arm[key] = value
		}
	}
	if words[1] == "run" {
		return words[2], []map[string]string{both}, nil
	}
	for k, v := range both {
		a[k], b[k] = v, v
	}
	return words[2], []map[string]string{a, b}, nil
}

// onlyFile matches what only names a file or a command, which says nothing of a claim.
var onlyFile = regexp.MustCompile(`^(windtunnel (run|ab) )?[\w./-]+\.\w+( --(set|a|b|repeats) \S+)*$`)

// containsWords says whether words stand in a text, whatever is between them.
func containsWords(text, words string) bool {
	return strings.Contains(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(words), " "))
}

// check names what is wrong with a claim.
func (c *claim) check(t *testing.T) (wrong []string) {
	t.Helper()
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	shown := c.State == "shown"
	switch c.State {
	case "shown", "smaller", "projected":
		if c.Outcome == "" || c.Kept == "" && (!shown || c.Stated == nil) {
			say("is %s, and names neither a kept flight nor what the scenario states, with what comes of it", c.State)
		}
	case "missing":
		if c.Kept != "" || c.Outcome != "" {
			say("is missing, and has a flight")
		}
	default:
		say("state %q, want one of %s", c.State, strings.Join(states, ", "))
	}
	if shown == (c.Needs != "") {
		say("needs: a claim says what it needs unless it is shown")
	}
	if shown && c.Command == "" {
		say("is shown, and has no command")
	}
	if c.Says == "" {
		say("says nothing")
	}
	if (c.Kept == "") != (c.Found == "") || onlyFile.MatchString(c.Found) {
		say("found: %q in %q is not what a flight says", c.Found, c.Kept)
	}
	if c.Kept != "" {
		kept, err := os.ReadFile(repotest.Path(t, filepath.FromSlash(c.Kept)))
		if err != nil || !strings.HasPrefix(c.Kept, "experiments/") {
			say("kept: %s: %v", c.Kept, err)
		} else if !containsWords(string(kept), c.Found) {
			say("%s does not say %q", c.Kept, c.Found)
		}
	}
	if c.Command != "" {
		file, sets, err := arms(c.Command)
		if err != nil {
			say("%v", err)
		}
		text, err := scenario.Read(repotest.Path(t, filepath.FromSlash(file)))
		if err != nil {
			say("%v", err)
		}
		for _, one := range c.Stated {
			if !containsWords(string(text), one) {
				say("%s does not state %q", file, one)
			}
		}
		for _, set := range sets {
			if _, err := scenario.Load(repotest.Path(t, filepath.FromSlash(file)), set); err != nil {
				say("%s: %v", c.Command, err)
			}
		}
	}
	return wrong
}

// TestClaims holds that each claim of the published reports has a row, that its command
// is one, and that the kept flight says what the row says; the docs have the tables.
func TestClaims(t *testing.T) {
	all := map[string]int{}
	for _, r := range reports {
		claims := readClaims(t, r.plane)
		repotest.Equal(t, len(claims), r.claims, "%s: claims", r.plane)
		counts := map[string]int{}
		for i, c := range claims {
			if want := fmt.Sprintf("%s%d", r.prefix, i+1); c.ID != want {
				t.Errorf("%s: claim %s stands where %s is expected", r.plane, c.ID, want)
			}
			for _, wrong := range c.check(t) {
				t.Errorf("%s %s: %s", r.plane, c.ID, wrong)
			}
			counts[c.State]++
			all[c.State]++
		}
		t.Logf("%-8s %s", r.plane, countsText(counts))
		repotest.GoldenPart(t, repotest.Path(t, "docs", "how-to", r.page), "claims", table(claims, counts))
	}
	t.Logf("%-8s %s", "all", countsText(all))
}

func countsText(counts map[string]int) string {
	var out []string
	for _, s := range states {
		out = append(out, fmt.Sprintf("%d %s", counts[s], s))
	}
	return strings.Join(out, ", ")
}

// table is the docs' table of a report's claims.
func table(claims []claim, counts map[string]int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Of %d claims: %s.\n\n| | the report says | state | what came of it, or what it needs |\n|---|---|---|---|\n", len(claims), countsText(counts))
	cell := strings.NewReplacer("|", "\\|", "<", "&lt;")
	for _, c := range claims {
		rest := []string{}
		if c.Outcome != "" {
			link := " [Kept](../../" + c.Kept + ")."
			if c.Kept == "" {
				file, _, _ := arms(c.Command) // checked with the row
				link = " [Stated](../../" + file + ")."
			}
			rest = append(rest, cell.Replace(c.Outcome)+link)
		}
		if c.Model != "" {
			rest = append(rest, "A model: "+c.Model+".")
		}
		if c.Needs != "" {
			rest = append(rest, "Needs: "+c.Needs)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.ID, cell.Replace(c.Says), c.State, strings.Join(rest, " "))
	}
	return b.String()
}

// TestClaimsPlan plans every command of every claim, as `make claims` asks for.
func TestClaimsPlan(t *testing.T) {
	if os.Getenv("WINDTUNNEL_CLAIMS") == "" {
		t.Skip("plans two hundred flights: make claims")
	}
	bin, planned := repotest.Binary(t), map[string]bool{}
	for _, r := range reports {
		for _, c := range readClaims(t, r.plane) {
			if c.Command == "" {
				continue
			}
			file, sets, err := arms(c.Command)
			repotest.NoError(t, err)
			for _, set := range sets {
				args := []string{"run", file, "--plan"}
				for k, v := range set {
					args = append(args, "--set", k+"="+v)
				}
				if key := fmt.Sprint(file, set); planned[key] {
					continue
				} else {
					planned[key] = true
				}
				run := exec.Command(bin, args...)
				run.Dir = repotest.Root(t)
				if out, err := run.CombinedOutput(); err != nil {
					t.Errorf("%s: %s: %v\n%s", c.ID, c.Command, err, out)
				}
			}
		}
	}
	t.Logf("%d flights planned", len(planned))
}
