package report

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"

	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// The page's script and style are built from web/ by `make web` and are
// committed, so that building windtunnel needs no Node.js.
//
//go:embed bundle/report.js bundle/report.css shell.tmpl run.tmpl comparison.tmpl
var files embed.FS

// Page is a report as a browser shows it: report.html holds one, and package
// dashboard sends them to the live page, whose contract is in web/src/live.ts.
// Its words are rendered here, so that they are there without JavaScript and on
// paper; its charts are drawn from content.Data by the script.
type Page struct {
	Kind    string        `json:"kind"`           // "run", "comparison" or "site"
	State   string        `json:"state"`          // pass, fail, unknown, running, or compared: the page's colour
	Title   string        `json:"title"`          // of the window
	Name    string        `json:"name"`           // of the scenario
	Started string        `json:"started"`        // wall time of the run's begin, RFC 3339; empty where there is none
	When    string        `json:"when"`           // the same for people
	Main    template.HTML `json:"main,omitempty"` // sections with ids; report.html has it in its markup
	Data    content.Data  `json:"data"`
	Site    any           `json:"site,omitempty"` // in place of Data, of many runs: package site
	Made    string        `json:"made,omitempty"` // version of windtunnel
}

// The kinds of pages.
const (
	kindRun        = "run"
	kindComparison = "comparison"
	KindSite       = "site"
)

// The states that are no verdict.
const (
	stateRunning  = "running"  // a run under way
	StateCompared = "compared" // a comparison that no gate was asked of, or many runs
)

// NewPage renders the report for a browser.
func NewPage(r *content.Report) (Page, error) {
	v, err := newView(r)
	if err != nil {
		return Page{}, fmt.Errorf("render report: %w", err)
	}
	main, err := renderTemplate("run", v)
	if err != nil {
		return Page{}, fmt.Errorf("render report: %w", err)
	}
	m := r.Manifest
	p := Page{
		Kind: kindRun, State: string(r.Judgement.Verdict), Title: v.Head.Word + " – " + r.Name() + " – windtunnel", Name: r.Name(),
		Started: m.Started.UTC().Format("2006-01-02T15:04:05Z"), When: m.Started.UTC().Format("2 January 2006, 15:04 UTC"),
		Main: main, Data: r.Charts, Made: m.Versions[run.Instrument],
	}
	if r.Live {
		p.State = stateRunning
	}
	return p, nil
}

// WriteHTML writes the page: one file that loads nothing, so that it can be mailed,
// attached to an issue and opened from disk. Without JavaScript it shows the
// verdict and every table; with it, the charts.
func WriteHTML(w io.Writer, r *content.Report) error {
	p, err := NewPage(r)
	if err != nil {
		return err
	}
	return p.HTML(w)
}

// HTML writes the page as one file that loads nothing.
func (p Page) HTML(w io.Writer) error {
	data := p
	data.Main = "" // it is in the markup
	raw, err := data.JSON()
	if err != nil {
		return err
	}
	return p.writeShell(w, raw, "")
}

// JSON is the page as the live page is sent it, in one line.
func (p Page) JSON() ([]byte, error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode page: %w", err)
	}
	return raw, nil
}

// Shell writes the page without a run in it: the live page of package
// dashboard, which fetches runs from where it was loaded from, and from nowhere
// else.
func Shell(w io.Writer) error {
	return Page{Title: "windtunnel"}.writeShell(w, nil, "; connect-src 'self'")
}

// shell is what the outer template is filled from.
type shell struct {
	Page
	Policy string
	Style  template.CSS
	Script template.JS
	JSON   template.JS
}

// writeShell fills the outer template. Characters that could end the data's script
// element were escaped by json.Marshal; script and style are our own files.
func (p Page) writeShell(w io.Writer, data []byte, more string) error {
	script, err := files.ReadFile("bundle/report.js")
	if err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	style, err := files.ReadFile("bundle/report.css")
	if err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	out, err := renderTemplate("shell.tmpl", shell{p, securityPolicy(script, style) + more, template.CSS(style), template.JS(script), template.JS(data)})
	if err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	if _, err := io.WriteString(w, string(out)); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// renderTemplate fills one of the templates. What it gives is markup whose texts were
// escaped.
func renderTemplate(name string, from any) (template.HTML, error) {
	t, err := template.New("").Funcs(template.FuncMap{
		"next":     func(n int) int { return n + 1 },
		"rows":     func(a, b string, rows any) table { return table{a, b, rows} },
		"warnings": func(n int) string { return unit.Text(float64(n), "warnings") },
	}).ParseFS(files, "*.tmpl")
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := t.ExecuteTemplate(&out, name, from); err != nil {
		return "", err
	}
	return template.HTML(out.String()), nil
}

// table is what a table of a comparison is filled from.
type table struct {
	A, B string
	Rows any
}

// securityPolicy is the page's content security policy: nothing is loaded from
// anywhere, and only this script and this style are in force, so that a name
// from a scenario cannot become code even if an escape were forgotten.
func securityPolicy(script, style []byte) string {
	return "default-src 'none'; img-src data:; script-src " + sourceHash(script) + "; style-src " + sourceHash(style) +
		"; base-uri 'none'; form-action 'none'"
}

func sourceHash(content []byte) string {
	sum := sha256.Sum256(content)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
