// Package grafana writes a dashboard for Grafana over the Prometheus query API
// that the verb serve answers, with the files that provision both.
//
// Its panels ask for what every run has: the plane's own metrics under the
// names that its components give them, and those of windtunnel's process. It
// talks to no Grafana.
package grafana

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
)

// Dashboard is a dashboard in Grafana's classic JSON, of which it names what is
// not the default (https://grafana.com/docs/grafana/latest/visualizations/dashboards/build-dashboards/view-dashboard-json-model/).
type Dashboard struct {
	UID           string   `json:"uid"`
	Title         string   `json:"title"`
	Description   string   `json:"description"`
	Tags          []string `json:"tags"`
	Timezone      string   `json:"timezone"`
	SchemaVersion int      `json:"schemaVersion"`
	Editable      bool     `json:"editable"`
	GraphTooltip  int      `json:"graphTooltip"` // 1: one crosshair for all panels
	Refresh       string   `json:"refresh"`
	Time          Span     `json:"time"`
	Templating    struct {
		List []Variable `json:"list"`
	} `json:"templating"`
	Panels []Panel `json:"panels"`
}

// Span is the time that is shown at first: RFC 3339 or relative (now-15m).
type Span struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Variable is what a person can choose above the panels.
type Variable struct {
	Name       string  `json:"name"`
	Label      string  `json:"label"`
	Type       string  `json:"type"` // datasource, query
	Query      any     `json:"query"`
	Datasource *Source `json:"datasource,omitempty"`
	Multi      bool    `json:"multi,omitempty"`
	IncludeAll bool    `json:"includeAll,omitempty"`
	AllValue   string  `json:"allValue,omitempty"`
	Refresh    int     `json:"refresh,omitempty"` // 2: when the time changes
}

// Source names a data source.
type Source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Panel is a chart, or a row that charts stand below.
type Panel struct {
	ID          int         `json:"id"`
	Type        string      `json:"type"` // row, timeseries
	Title       string      `json:"title"`
	Description string      `json:"description,omitempty"`
	GridPos     Grid        `json:"gridPos"`
	Collapsed   *bool       `json:"collapsed,omitempty"` // of a row
	Panels      *[]Panel    `json:"panels,omitempty"`    // of a collapsed row
	Datasource  *Source     `json:"datasource,omitempty"`
	Targets     []Target    `json:"targets,omitempty"`
	FieldConfig *FieldSet   `json:"fieldConfig,omitempty"`
	Options     *ChartLooks `json:"options,omitempty"`
}

// Grid is a place on a grid of 24 columns.
type Grid struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// Target is one query of a panel.
type Target struct {
	RefID  string `json:"refId"`
	Expr   string `json:"expr"`
	Legend string `json:"legendFormat"`
	Range  bool   `json:"range"`
	Source Source `json:"datasource"`
}

// FieldSet says how values are shown.
type FieldSet struct {
	Defaults  Field `json:"defaults"`
	Overrides []any `json:"overrides"`
}

// Field is how one value is shown.
type Field struct {
	Unit   string   `json:"unit"`
	Min    *float64 `json:"min,omitempty"`
	Custom struct {
		LineWidth   int    `json:"lineWidth"`
		FillOpacity int    `json:"fillOpacity"`
		ShowPoints  string `json:"showPoints"`
	} `json:"custom"`
}

// ChartLooks are those of a chart's legend and of what is shown under the pointer.
type ChartLooks struct {
	Legend struct {
		DisplayMode string   `json:"displayMode"`
		Placement   string   `json:"placement"`
		ShowLegend  bool     `json:"showLegend"`
		Calcs       []string `json:"calcs"`
	} `json:"legend"`
	Tooltip struct {
		Mode string `json:"mode"`
		Sort string `json:"sort"`
	} `json:"tooltip"`
}

// Names of what refers to one another.
const (
	dashboardUID = "windtunnel"
	sourceUID    = "windtunnel"
	sourceName   = "windtunnel"
)

// Options say what is shown at first.
type Options struct {
	Scenario string        // whose run; empty: whatever is served
	Started  time.Time     // wall time of the run's begin; zero: the last quarter of an hour
	Length   time.Duration // of the run
}

// New returns the dashboard.
func New(o Options) Dashboard {
	d := Dashboard{
		UID: dashboardUID, Title: "windtunnel", Tags: []string{"windtunnel", "kubernetes"}, Timezone: "utc", SchemaVersion: 39, Editable: true, GraphTooltip: 1,
		Description: "A run of windtunnel, as `windtunnel serve` answers for it.",
		Time:        Span{"now-15m", "now"}, Refresh: "10s", Panels: layPanels(),
	}
	if o.Scenario != "" {
		d.Title += ": " + o.Scenario
	}
	if !o.Started.IsZero() {
		at := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
		d.Time, d.Refresh = Span{at(o.Started), at(o.Started.Add(o.Length))}, ""
	}
	d.Templating.List = []Variable{
		{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus"},
		{Name: "job", Label: "Component", Type: "query", Datasource: chosenSource(), Query: map[string]string{"query": jobs, "refId": "job"},
			Multi: true, IncludeAll: true, AllValue: ".*", Refresh: 2},
	}
	return d
}

// jobs lists the components: all of them have a process.
const jobs = "label_values(process_cpu_seconds_total, job)"

// chosenSource is the data source that is chosen above the panels.
func chosenSource() *Source { return &Source{Type: "prometheus", UID: "${datasource}"} }

// JSON returns the dashboard's file.
func (d Dashboard) JSON() ([]byte, error) {
	raw, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode dashboard: %w", err)
	}
	return append(raw, '\n'), nil
}

// Provision writes what a Grafana finds a dashboard and its data source by into
// a folder, in the layout of its folder of provisioning: datasources/,
// dashboards/ and the dashboard beside its provider. url is where the verb serve
// listens, as that Grafana reaches it. It returns the files' paths.
func Provision(folder, url string, d Dashboard) ([]string, error) {
	raw, err := d.JSON()
	if err != nil {
		return nil, err
	}
	folder, err = filepath.Abs(folder)
	if err != nil {
		return nil, fmt.Errorf("provision Grafana: %w", err)
	}
	var out []string
	for _, f := range []struct {
		path    string
		content []byte
	}{
		{"datasources/windtunnel.yaml", fmt.Appendf(nil, datasourceYAML, sourceName, sourceUID, url)},
		{"dashboards/windtunnel.yaml", fmt.Appendf(nil, providerYAML, filepath.Join(folder, "dashboards"))},
		{"dashboards/windtunnel.json", raw},
	} {
		path := filepath.Join(folder, f.path)
		into, err := record.MakeFolder(filepath.Dir(path), 0o755)
		if err != nil {
			return out, fmt.Errorf("provision Grafana: %w", err)
		}
		if err := into.WriteMode(filepath.Base(path), f.content, 0o644); err != nil {
			return out, fmt.Errorf("provision Grafana: %w", err)
		}
		out = append(out, path)
	}
	return out, nil
}

const datasourceYAML = `apiVersion: 1
datasources:
- name: %s
  uid: %s
  type: prometheus
  access: proxy
  url: %q
  isDefault: true
  jsonData:
    httpMethod: GET
    timeInterval: 5s
`

const providerYAML = `apiVersion: 1
providers:
- name: windtunnel
  type: file
  options:
    path: %q
`
