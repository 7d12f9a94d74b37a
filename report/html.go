package report

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
)

// The page's script and style are built from web/ by `npm run build` and are
// committed, so that building windtunnel needs no Node.js.
//
//go:embed bundle/report.js bundle/report.css page.tmpl
var files embed.FS

// HTML writes the page: one file that loads nothing, so that it can be mailed,
// attached to an issue and opened from disk. Without JavaScript it shows the
// verdict and every table; with it, the charts.
func (r *Report) HTML(w io.Writer) error {
	p, err := r.page()
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	t, err := template.New("page.tmpl").ParseFS(files, "page.tmpl")
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, p); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// policy is the page's content security policy: nothing is loaded from
// anywhere, and only this script and this style are in force, so that a name
// from a scenario cannot become code even if an escape were forgotten.
func policy(script, style []byte) string {
	return "default-src 'none'; img-src data:; script-src " + hash(script) + "; style-src " + hash(style) +
		"; base-uri 'none'; form-action 'none'"
}

func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// assets fills the page's parts that are not text.
func (p *page) assets(data []byte) error {
	script, err := files.ReadFile("bundle/report.js")
	if err != nil {
		return err
	}
	style, err := files.ReadFile("bundle/report.css")
	if err != nil {
		return err
	}
	p.Policy = policy(script, style)
	// Both are our own files, and data was escaped when it was encoded.
	p.Script, p.Style, p.Data = template.JS(script), template.CSS(style), template.JS(data)
	return nil
}
