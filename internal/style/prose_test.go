package style_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// A house word is one that readers have to guess; now is the word of the field.
type houseWord struct{ pattern, now string }

// anyHouseWord matches a line that has one, since most have none.
var anyHouseWord = sync.OnceValue(func() *regexp.Regexp {
	var all []string
	for _, w := range houseWords {
		all = append(all, w.pattern)
	}
	return regexp.MustCompile("(?i)" + strings.Join(all, "|"))
})

// houseWords are not used in pages and in help.
var houseWords = []houseWord{
	{`\bwhoever\b`, "everybody who, or the role"},
	{`\bwhatever\b (was|is) (asked|measured)\b`, "the thing"},
	{`\btold (of|apart)\b`, "reported, distinguished"},
	{`\bat the (least|most)\b`, "at least, at most"},
	{`\ba quarter of (an hour|a minute|a second)\b`, "a number with its unit"},
	{`\bhalf (an hour|a minute)\b`, "a number with its unit"},
	{`\bin place of\b`, "instead of"},
	{`\bof whose\b`, "a noun"},
	{`\bcasts? doubt\b`, "warns"},
	{`\b(is|are) to be had\b`, "is available"},
	{`\bmend(s|ed|ing)?\b`, "fix"},
	{`\banew\b`, "again, new"},
	{`\bflown\b`, "run"},
	{`\b(flies|flew)\b`, "runs, ran"},
	{`\bneighbours'? (take|took|taking)\b`, "other processes used"},
	{`\bquicker\b`, "faster"},
	{`\bas (long|much) as it (should|ought)\b`, "a figure"},
	{`\blikewise\b`, "also, the same"},
	{`\bbut for\b`, "except"},
	{`\bstands? beside\b`, "is next to"},
	{`\blies? beside\b`, "is next to"},
	{`\b(is|are) taken away\b`, "is deleted"},
	{`\bheld against\b`, "compared with"},
	{`\bto fly\b`, "to run"},
	{`\bwhat (it|they) (is|are) to have\b`, "a noun"},
	{`\bsays so by a sentence\b`, "prints a message"},
	{`\bfor want of\b`, "without"},
	{`\bby chances\b`, "at random"},
	{`\bunder way\b`, "running, active"},
}

// British spellings and slips, with the spelling of the Kubernetes documentation. A flag
// or a field keeps its name.
var spellings = map[string]string{
	"behaviour": "behavior", "honour": "honor", "colour": "color", "favour": "favor", "neighbour": "neighbor", "labour": "labor",
	"licence": "license", "defence": "defense", "centre": "center", "metre": "meter", "modelled": "modeled", "modelling": "modeling",
	"labelled": "labeled", "cancelled": "canceled", "travelled": "traveled", "optimis": "optimiz", "serialis": "serializ", "normalis": "normaliz",
	"initialis": "initializ", "organis": "organiz", "recognis": "recogniz", "summaris": "summariz", "synchronis": "synchroniz", "analyse": "analyze",
	"enrol ": "enroll ", "enrolment": "enrollment", "recieve": "receive", "seperat": "separat", "occured": "occurred", "occurence": "occurrence",
	"accomodat": "accommodat", "succesful": "successful", "neccessar": "necessar", "existant": "existent", "untill": "until",
	"wich ": "which ", "teh ": "the ", "lenght": "length", "heigth": "height", "paramter": "parameter", "kuberentes": "kubernetes", "adress": "address",
}

// proseAsItStands are folders of pages that keep the words of their time.
var proseAsItStands = []string{"docs/history/"}

// quoted is what a sentence names literally: code, links' targets, tables made from data.
var quoted = regexp.MustCompile("(?s)```.*?```|<!-- (claims|options[^>]*) -->.*?<!-- end of [^>]* -->|`[^`\n]*`|\\]\\([^)]*\\)|--[a-z-]+|https?://\\S+")

// prose returns a page with all that it quotes made blank, line by line.
func prose(text string) string {
	return quoted.ReplaceAllStringFunc(text, func(s string) string {
		return strings.Map(func(r rune) rune {
			if r == '\n' {
				return r
			}
			return ' '
		}, s)
	})
}

// faultsOf returns what is wrong with a text: line and sentence.
func faultsOf(text string) (out []string) {
	number := 0
	for line := range strings.Lines(prose(text)) {
		number++
		lower := strings.ToLower(line)
		for _, w := range houseWords {
			if !anyHouseWord().MatchString(line) {
				break
			}
			if m := regexp.MustCompile(`(?i)` + w.pattern).FindString(line); m != "" {
				out = append(out, lineFault(number, m, w.now))
			}
		}
		for wrong, right := range spellings {
			if strings.Contains(lower, wrong) {
				out = append(out, lineFault(number, strings.TrimSpace(wrong), right))
			}
		}
	}
	return out
}

func lineFault(number int, found, now string) string {
	return fmt.Sprintf("line %d: %q: write %s", number, found, now)
}

// proseToRewrite has the pages that many people write at the same time, with the number of
// faults that may wait for the next reader.
var proseToRewrite = map[string]int{
	"CHANGELOG.md":                                   5,
	"docs/how-to/recipes.md":                         3,
	"docs/how-to/reproducing-kosmos.md":              8,
	"docs/how-to/reproducing-kubeedge-100k.md":       8,
	"docs/how-to/reproducing-kubevela-assessment.md": 8,
	"docs/how-to/reproducing-kubevirt-density.md":    8,
	"docs/reference/scenario.md":                     5,
	"cmd/windtunnel/testdata/help.golden":            5,
}

// TestProse holds pages and help to the words of the field and to one spelling.
func TestProse(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "-C", "../..", "ls-files", "*.md", "cmd/windtunnel/testdata/help.golden").Output()
	if err != nil {
		t.Skipf("no checkout: %v", err)
	}
	seen := 0
	for _, path := range strings.Fields(string(out)) {
		if !isProse(path) {
			continue
		}
		raw, err := os.ReadFile(filepath.Join("../..", path))
		if err != nil {
			continue // moved in this working copy
		}
		seen++
		found, allowed := faultsOf(string(raw)), proseToRewrite[path]
		if len(found) > allowed {
			t.Errorf("%s: %d faults, %d are allowed:\n\t%s", path, len(found), allowed, strings.Join(found, "\n\t"))
		}
	}
	if seen < 40 {
		t.Errorf("only %d pages were read", seen)
	}
}

// isProse reports whether a file is for people who use windtunnel.
func isProse(path string) bool {
	for _, kept := range proseAsItStands {
		if strings.HasPrefix(path, kept) {
			return false
		}
	}
	return strings.HasPrefix(path, "docs/") || strings.HasSuffix(path, ".golden") || path == "experiments/README.md" || !strings.Contains(path, "/") && path != "ARCHITECTURE.md" && path != "CONTRIBUTING.md"
}

func TestFaultsOf(t *testing.T) {
	for text, n := range map[string]int{
		"The hub sends one message.": 0, "It was flown anew.": 2, "`flown` and --max-neighbours": 0, "the behaviour": 1,
		"```\nflown\n```\n[a](flown.md)": 0, "<!-- claims -->\nflown\n<!-- end of claims -->": 0,
	} {
		if got := faultsOf(text); len(got) != n {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestEveryPageIsListed holds that the index and the site's sidebar lead to each page.
func TestEveryPageIsListed(t *testing.T) {
	index := repotest.Must(os.ReadFile("../../docs/README.md"))(t)
	site := repotest.Must(os.ReadFile("../../docs/.vitepress/config.mts"))(t)
	seen := 0
	for _, shelf := range []string{"start", "how-to", "reference", "background"} {
		pages := repotest.Must(filepath.Glob("../../docs/" + shelf + "/*.md"))(t)
		for _, page := range pages {
			seen++
			name := shelf + "/" + filepath.Base(page)
			if !strings.Contains(string(index), "]("+name+")") {
				t.Errorf("docs/README.md does not list %s", name)
			}
			if !strings.Contains(string(site), `"/`+strings.TrimSuffix(name, ".md")+`"`) {
				t.Errorf("the sidebar of docs/.vitepress/config.mts does not list %s", name)
			}
		}
	}
	if seen < 25 {
		t.Errorf("only %d pages were found", seen)
	}
}
