package kubeburner

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/windtunnel/windtunnel/internal/text/linemap"
	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// metric is an entry of a metrics profile.
type metric struct {
	At           string `yaml:"-"`
	Query        string `yaml:"query"`
	MetricName   string `yaml:"metricName"`
	Instant      bool   `yaml:"instant"`
	CaptureStart bool   `yaml:"captureStart"`
}

// alert is an entry of an alert profile.
type alert struct {
	At          string `yaml:"-"`
	Expr        string `yaml:"expr"`
	Description string `yaml:"description"`
	Severity    string `yaml:"severity"`
}

// profiles makes what is measured and judged of queries.
type profiles struct {
	*target
	spans []span // the jobs' steps
	step  string // of range queries
}

// usualStep is the step of queries whose endpoint says none: as often as metrics are
// scraped. kube-burner's 30 s would see nothing of a short job.
const usualStep = "5s"

// readAll makes measures and objectives of the metric and alert profiles.
func (p profiles) readAll() {
	for i := range p.cfg.MetricsEndpoints {
		e := &p.cfg.MetricsEndpoints[i]
		if p.step = usualStep; e.Step > 0 {
			p.step = unit.Duration(e.Step).String()
		}
		readProfiles(p, e.At+".metrics", "metricsEndpoints.metrics", e.Metrics, p.addMetric)
		readProfiles(p, e.At+".alerts", "metricsEndpoints.alerts", e.Alerts, p.addAlert)
	}
}

// readProfiles reads lists from files that the config names, strictly, and takes
// what stands in them. What is wrong with it counts as wrong with the config.
func readProfiles[T any](p profiles, at, field string, paths []string, take func(*decoder, T)) {
	for i, path := range paths {
		text, ok := p.readTemplate(path, p.lineAt(fmt.Sprintf("%s[%d]", at, i)), field)
		if !ok {
			continue
		}
		var list []T
		d := newDecoder(&findings{file: p.pathOf(path)}, linemap.Verbatim([]byte(text)))
		if root, err := strictyaml.First([]byte(text)); err != nil {
			line, what := strictyaml.Syntax([]byte(text), err)
			d.addFaultAt(line, "not YAML: %s", what)
		} else {
			d.Value(root, reflect.ValueOf(&list).Elem(), strictyaml.Place{Name: "profile"})
		}
		p.faults = append(p.faults, d.faults...)
		for _, one := range list {
			take(d, one)
		}
		for _, n := range d.notes.All() {
			p.notes.Add(n)
		}
	}
}

// elapsed finds the variable of profiles: the length of the job. kube-burner
// writes it in seconds in metrics and in minutes in alerts; a query here is
// given the length as it is.
var elapsed = regexp.MustCompile(`\{\{-?\s*\.elapsed\s*-?\}\}`)

// queryOf is an expression of a profile in the form of a scenario's.
func (p profiles) queryOf(f *decoder, at, expr string) (string, bool) {
	out := elapsed.ReplaceAllString(expr, "%v")
	out = regexp.MustCompile(`\{\{-?\s*\.([A-Za-z_][A-Za-z0-9_]*)\s*-?\}\}`).ReplaceAllStringFunc(out, func(s string) string {
		if value, ok := p.opts.Env.Lookup(strings.Trim(s, "{}-. ")); ok {
			return value
		}
		return s
	})
	if strings.Contains(out, "{{") || strings.TrimSpace(out) == "" {
		f.addNote(f.Lines[at], "expr", "%q cannot be asked: its template has more than .elapsed and the environment", expr)
		return "", false
	}
	return out, true
}

// addMetric makes measures of a metric: an instant one is asked at a job's end,
// any other becomes the average and the highest value over the job.
func (p profiles) addMetric(f *decoder, m metric) {
	text, ok := p.queryOf(f, m.At, m.Query)
	if !ok {
		return
	}
	for _, s := range p.spans {
		name := m.MetricName
		if len(p.spans) > 1 {
			name += " of " + s.job
		}
		if m.Instant {
			p.out.Measures = append(p.out.Measures, scenario.Measure{Name: name, Query: text, Since: s.first, Until: s.last, Optional: true})
			continue
		}
		for _, over := range []string{"avg", "max"} {
			p.out.Measures = append(p.out.Measures, scenario.Measure{
				Name: name + " " + over, Query: over + "_over_time((" + text + ")[%v:" + p.step + "])", Since: s.first, Until: s.last, Optional: true,
			})
		}
	}
}

// braces finds what an alert's description says of its labels and value.
var braces = regexp.MustCompile(`\s*\(?\{\{.*?\}\}\)?`)

// addAlert makes an objective of an alert that makes kube-burner fail, and a
// measure of one that does not: at no moment of a job may its expression have a
// value.
func (p profiles) addAlert(f *decoder, a alert) {
	text, ok := p.queryOf(f, a.At, a.Expr)
	fatal := a.Severity == "error" || a.Severity == "critical"
	name := "alert: " + strings.Join(strings.Fields(braces.ReplaceAllString(a.Description, "")), " ")
	if !ok {
		if fatal {
			p.out.Objectives = append(p.out.Objectives, scenario.Objective{Name: name, Unsupported: "its expression cannot be asked"})
		}
		return
	}
	for _, s := range p.spans {
		called := name
		if len(p.spans) > 1 {
			called += " (" + s.job + ")"
		}
		fires := firingQuery(text, p.step)
		if !fatal {
			p.out.Measures = append(p.out.Measures, scenario.Measure{Name: called, Query: fires, Since: s.first, Until: s.last, Optional: true})
			continue
		}
		none := 0.0
		p.out.Objectives = append(p.out.Objectives, scenario.Objective{Name: called, Query: fires, Max: &none, Since: s.first, Until: s.last})
	}
}

// firingQuery turns an alert's expression into one whose value is above 0 where the
// alert fired at any moment of the job. A comparison tells by its left side
// whether there is anything to compare, so that an alert on what was never
// measured is unknown; of other expressions nothing tells.
func firingQuery(expr, step string) string {
	if left, sign, right, ok := splitComparison(expr); ok {
		return "max_over_time((" + left + " " + sign + " bool " + right + ")[%v:" + step + "])"
	}
	return "count_over_time((" + expr + ")[%v:" + step + "]) or vector(0)"
}

// splitComparison splits an expression at its one comparison outside of parentheses
// and texts. An expression with and, or, unless, a bool or a matching rule there
// has none.
func splitComparison(expr string) (left, sign, right string, ok bool) {
	depth, quote := 0, byte(0)
	at, length := -1, 0
	var outside strings.Builder
	for i := 0; i < len(expr); i++ {
		c := expr[i]
		switch {
		case quote != 0:
			if c == '\\' && quote != '`' {
				i++
			} else if c == quote {
				quote = 0
			}
			continue
		case c == '"' || c == '\'' || c == '`':
			quote = c
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			depth--
		case depth == 0 && strings.IndexByte("<>=!", c) >= 0:
			if at >= 0 {
				return "", "", "", false
			}
			at, length = i, 1
			if i+1 < len(expr) && expr[i+1] == '=' {
				length = 2
				i++
			}
		case depth == 0:
			outside.WriteByte(c)
			continue
		}
		outside.WriteByte(' ')
	}
	if at < 0 || reserved.MatchString(outside.String()) {
		return "", "", "", false
	}
	left, right = strings.TrimSpace(expr[:at]), strings.TrimSpace(expr[at+length:])
	return left, expr[at : at+length], right, left != "" && right != ""
}

var reserved = regexp.MustCompile(`(?i)(^|[^a-z_0-9:])(and|or|unless|bool|on|ignoring|group_left|group_right|offset)([^a-z_0-9:]|$)`)
