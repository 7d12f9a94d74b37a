// Package redact takes out of texts what says who somebody is and where: hosts, users,
// paths, addresses, Secrets. What it takes out it counts.
//
// Each value has one replacement, so that what was one thing stays one and two stay two.
// Replacements of addresses and paths have the form of what they replace, so that a
// scenario still can be read. It knows patterns, not meanings: a name that looks like any
// other word must be given to it.
package redact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// The classes of what is taken out.
const (
	Address = "address"
	Host    = "host"
	User    = "user"
	Path    = "path"
	Secret  = "secret"
	Given   = "given" // what the author named
)

// Removed counts what was taken out of one file.
type Removed struct {
	File   string `json:"file"`
	Class  string `json:"class"`
	Times  int    `json:"times"`
	Values int    `json:"values"` // different ones
}

// Redactor takes texts and gives them back without. It is for one goroutine.
type Redactor struct {
	given    []string // texts to take out wherever they stand, the longest first
	known    map[string]map[string]string
	file     string
	counts   map[[2]string]int
	distinct map[[2]string]map[string]bool
	memo     map[string]edited
}

// edited is what became of a text, and what was taken out of it.
type edited struct {
	text  string
	taken [][2]string // class and value
}

// New returns a redactor that also takes out given texts.
func New(given ...string) *Redactor {
	given = slices.DeleteFunc(slices.Clone(given), func(s string) bool { return s == "" })
	slices.SortFunc(given, func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
	return &Redactor{
		given: given, known: map[string]map[string]string{}, counts: map[[2]string]int{},
		distinct: map[[2]string]map[string]bool{}, memo: map[string]edited{},
	}
}

// rule is a pattern of a class. Group 1 is what is taken out; without one it is the
// whole match. keep says which matches stay.
type rule struct {
	class   string
	pattern *regexp.Regexp
	keep    func(string) bool
}

// rules are applied in this order.
func rules() []rule {
	return []rule{
		{class: Secret, pattern: pem},
		{class: Secret, pattern: jwt},
		{class: Secret, pattern: bearer},
		{class: Secret, pattern: userInfo},
		{class: Secret, pattern: assigned, keep: isNoSecret},
		{class: User, pattern: mail},
		{class: Host, pattern: urlHost, keep: isPublicHost},
		{class: Host, pattern: innerHost, keep: isPublicHost},
		{class: Path, pattern: absolute},
		{class: Path, pattern: windows},
		{class: Address, pattern: ipv4, keep: isLocal},
		{class: Address, pattern: ipv6, keep: isNoAddress},
	}
}

// The patterns. A path is taken out up to its last part, or up to the folder that a run
// makes for itself, by which comparisons know it.
var (
	pem       = regexp.MustCompile(`-----BEGIN [A-Z ]+-----[^-]*-----END [A-Z ]+-----`)
	jwt       = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`)
	bearer    = regexp.MustCompile(`(?i)\bbearer\s+([A-Za-z0-9._~+/=-]{8,})`)
	userInfo  = regexp.MustCompile(`[a-z]://([^/\s:@]+:[^/\s@]+)@`)
	assigned  = regexp.MustCompile(`(?i)\b[\w.-]*(?:password|passwd|token|secret|api[-_]?key|private[-_]?key)["']?\s*[=:]\s*["']?([^\s"',}\]]+)`)
	mail      = regexp.MustCompile(`\b[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}\b`)
	urlHost   = regexp.MustCompile(`\bhttps?://(?:[^/\s@]*@)?([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*)`)
	innerHost = regexp.MustCompile(`\b((?:[A-Za-z0-9-]+\.)+(?:internal|local|lan|corp|intra|intranet|home|localdomain)|ip-\d+-\d+-\d+-\d+)\b`)
	absolute  = regexp.MustCompile(`(?:^|[\s"'=:,(\[])((?:/(?:home|Users|root|tmp|private|var|opt|srv|mnt|media|data|work|workspace|builds|Volumes|usr/local))(?:/[\w.@+~-]+)*?)/(?:windtunnel-run-\d+|[\w.@+~-]+(?:[^\w.@+~/-]|$))`)
	windows   = regexp.MustCompile(`\b([A-Za-z]:\\(?:[^\\\s"']+\\)*)[^\\\s"']+`)
	ipv4      = regexp.MustCompile(`\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b`)
	noSecret  = regexp.MustCompile(`^(?:true|false|null|none|\d+|[|>][+-]?|\$?\{.*|<.*|%.*|\[.*)$`)
	replaced  = regexp.MustCompile(`^(?:/?(?:host|user|path|given)-\d+(?:@host)?(?:.invalid)?|x+|A+=*)$`)
	ipv6      = regexp.MustCompile(`(?i)\b(?:[0-9a-f]{1,4}:){1,7}(?::?[0-9a-f]{1,4})?(?::[0-9a-f]{1,4})*`)
)

// isNoSecret tells values that only look like one: empty, a switch, a number, a variable.
func isNoSecret(s string) bool {
	return noSecret.MatchString(s)
}

// isPublicHost tells hosts that say nothing of who somebody is.
func isPublicHost(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true // an address, which has its own rule
	}
	for _, end := range []string{"localhost", "cluster.local", ".svc", "k8s.io", "kubernetes.io", "github.com", "windtunnel.dev", "example.com"} {
		if s == end || strings.HasSuffix(s, "."+strings.TrimPrefix(end, ".")) {
			return true
		}
	}
	return !strings.Contains(s, ".") && s == "kubernetes"
}

// isLocal tells addresses that every machine has, and what is none.
func isLocal(s string) bool {
	a, err := netip.ParseAddr(s)
	return err != nil || a.IsLoopback() || a.IsUnspecified() || isKept(a)
}

// isNoAddress is isLocal for what may be a time of day or a digest.
func isNoAddress(s string) bool {
	return !strings.Contains(s, "::") && strings.Count(s, ":") != 7 || isLocal(s)
}

// isKept tells addresses of the prefixes that RFC 2544 keeps for benchmarks and RFC 3849
// for documents: replacements are from there.
func isKept(a netip.Addr) bool {
	return netip.MustParsePrefix("198.18.0.0/15").Contains(a) || netip.MustParsePrefix("2001:db8::/32").Contains(a)
}

// Begin says to which file the texts to come belong.
func (r *Redactor) Begin(file string) { r.file = file }

// Text returns a text without what is to be taken out. A text in JSON is edited value by
// value.
func (r *Redactor) Text(s string) string {
	if len(s) < 4 {
		return s
	}
	if s[0] == '{' {
		if out, err := r.JSON([]byte(s)); err == nil {
			return string(bytes.TrimSuffix(out, []byte("\n")))
		}
	}
	done, seen := r.memo[s]
	if !seen {
		done = r.edit(s)
		if len(s) < 256 { // what comes again is short
			r.memo[s] = done
		}
	}
	for _, t := range done.taken {
		r.count(t[0], t[1])
	}
	return done.text
}

func (r *Redactor) count(class, value string) {
	key := [2]string{r.file, class}
	if r.counts[key]++; r.distinct[key] == nil {
		r.distinct[key] = map[string]bool{}
	}
	r.distinct[key][value] = true
}

func (r *Redactor) edit(s string) (out edited) {
	out.text = s
	for _, g := range r.given {
		if n := strings.Count(out.text, g); n > 0 {
			out.text = strings.ReplaceAll(out.text, g, r.replacement(Given, g))
			for range n {
				out.taken = append(out.taken, [2]string{Given, g})
			}
		}
	}
	for _, rule := range rules() {
		out.text = r.apply(rule, out.text, &out.taken)
	}
	return out
}

// apply applies one rule to a text.
func (r *Redactor) apply(rule rule, s string, taken *[][2]string) string {
	var b strings.Builder
	at := 0
	for at <= len(s) {
		found := rule.pattern.FindStringSubmatchIndex(s[at:])
		if found == nil {
			break
		}
		group := len(found) - 2
		from, to := at+found[group], at+found[group+1]
		value := s[from:to]
		b.WriteString(s[at:from])
		switch {
		case value == "" || rule.keep != nil && rule.keep(value) || replaced.MatchString(value):
			b.WriteString(value)
		default:
			b.WriteString(r.replacement(rule.class, value))
			*taken = append(*taken, [2]string{rule.class, value})
		}
		if to == at { // an empty match does not end the search
			b.WriteString(s[to:min(to+1, len(s))])
			to++
		}
		at = to
	}
	return b.String() + s[min(at, len(s)):]
}

// replacement returns what stands for a value from now on.
func (r *Redactor) replacement(class, value string) string {
	if r.known[class] == nil {
		r.known[class] = map[string]string{}
	}
	out, known := r.known[class][value]
	if known {
		return out
	}
	n := len(r.known[class]) + 1
	switch class {
	case Address:
		out = fmt.Sprintf("198.%d.%d.%d", 18+n>>16&1, n>>8&255, n&255)
		if strings.Contains(value, ":") {
			out = fmt.Sprintf("2001:db8::%x", n)
		}
	case Host:
		out = fmt.Sprintf("host-%d.invalid", n)
	case User:
		out = fmt.Sprintf("user-%d@host.invalid", n)
	case Path:
		out = fmt.Sprintf("/path-%d", n)
	case Secret:
		out = strings.Repeat("x", min(len(value), 16))
	default:
		out = fmt.Sprintf("%s-%d", class, n)
	}
	r.known[class][value] = out
	return out
}

// JSON returns a JSON text, indented as it was or not at all, with each text in it edited.
func (r *Redactor) JSON(raw []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil || decoder.More() {
		return nil, fmt.Errorf("redact: not JSON: %w", err)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if bytes.Contains(raw, []byte("\n")) {
		e.SetIndent("", "  ")
	}
	if err := e.Encode(r.walk(v)); err != nil {
		return nil, fmt.Errorf("redact: %w", err)
	}
	return b.Bytes(), nil
}

func (r *Redactor) walk(v any) any {
	switch v := v.(type) {
	case string:
		return r.Text(v)
	case []any:
		for i := range v {
			v[i] = r.walk(v[i])
		}
	case map[string]any:
		for key := range v { // keys are names of fields and parameters
			v[key] = r.walk(v[key])
		}
	}
	return v
}

// Removed lists what was taken out, by file and class.
func (r *Redactor) Removed() []Removed {
	out := []Removed{}
	for key, n := range r.counts {
		out = append(out, Removed{File: key[0], Class: key[1], Times: n, Values: len(r.distinct[key])})
	}
	slices.SortFunc(out, func(a, b Removed) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Class, b.Class))
	})
	return out
}
